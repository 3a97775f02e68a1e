//! The noise of a machine ([`Noise`]), and the smallest differences that repeats can show. [`super::calibration`]
//! derives it from the runs of a calibration.
//!
//! All deviations are those of logs of throughput, so that 0.01 is 1 %.

use serde::Serialize;

use super::claim::{Claim, Sentence};
use super::compare::Settings;
use crate::job::{Device, Name};
use crate::record::HostFacts;
use crate::shared::Shared;
use crate::stats::{self, Design};
use crate::text::{count_text, significant};

/// The prefix of the names of calibration plans. The name of a device follows: `calibration-cpu`.
pub const CALIBRATION: &str = "calibration";

/// The noise of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// The number of blocks in which both envs have a run that counts.
    pub pairs: usize,
    /// The number of runs that marks leave out.
    pub left_out: usize,
    /// The median seconds of a window.
    pub window_s: f64,
    /// The standard deviation of the runs within a block.
    pub within: f64,
    /// The lower and the upper end of the confidence interval of `within`.
    pub within_interval: (f64, f64),
    /// The standard deviation between blocks, in addition to that of their runs; 0 if none is detected.
    pub between: f64,
    /// The drift per hour and the ends of its interval; absent for fewer than [`SLOPE_NEEDS`] blocks.
    pub drift_per_hour: Option<(f64, f64, f64)>,
    /// The median correlation of neighbouring iterations; absent if no worker wrote enough of them.
    pub autocorrelation: Option<f64>,
    /// The part of the standard deviation of a run that the scatter of its iterations explains.
    pub by_iterations: Option<f64>,
    /// The number of processors that are busy beside a run on an idle machine; absent if too few runs record it.
    pub idle_processors: Option<f64>,
    /// The verdict of the comparison of the two envs, which do not differ.
    pub verdict: &'static str,
    /// Whether the verdict is wrong.
    pub is_wrong: bool,
}

/// The noise of a device, with the place and the date of its measurement.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The name of the calibration plan.
    pub plan: String,
    /// The device.
    pub device: Device,
    /// The machine.
    pub host: Shared<HostFacts>,
    /// The day of its last run.
    pub date: String,
    /// The noise.
    pub noise: Noise,
}

impl Calibrated {
    /// Whether the noise was measured on the machine of `host`.
    pub fn is_of(&self, host: &HostFacts) -> bool {
        self.host.is_machine_of(host)
    }

    /// The differences that `repeats` repeats resolve on the machine, as a sentence without a full stop. `None` for
    /// fewer than three.
    pub fn resolution(&self, repeats: usize) -> Option<Sentence> {
        let Calibrated { device, host, date, noise, .. } = self;
        let [interleaved, apart] =
            [Order::Interleaved, Order::Apart].map(|order| noise.resolves(repeats, order));
        let percent = |share: f64| significant(100.0 * share, 2);
        let text = format!(
            "at the noise of {device} on {}, calibrated on {date}, {} resolve {} % between interleaved configs, and {} \
             % between runs apart",
            host.hostname,
            count_text(repeats, "repeat"),
            percent(interleaved?),
            percent(apart?)
        );
        Some(Sentence::new(text, [Claim::several(repeats)]))
    }
}

/// Whether the compared runs share blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// They share blocks: envs or values of one matrix, interleaved.
    Interleaved,
    /// They share no block: runs of two nights, or before and after a change.
    Apart,
}

impl Noise {
    /// The smallest difference, as a share, that `repeats` repeats of each side find in four of five cases. `None` for
    /// fewer than three.
    pub fn resolves(&self, repeats: usize, order: Order) -> Option<f64> {
        (repeats >= stats::MEAN_INTERVAL_NEEDS).then(|| -(-self.design(order).resolves(repeats)).exp_m1())
    }

    /// The number of repeats of each side that find a `difference`, a share, in four of five cases.
    pub fn repeats_for(&self, difference: f64, order: Order) -> Option<usize> {
        self.design(order).repeats_to_find(-(-difference).ln_1p())
    }

    fn design(&self, order: Order) -> Design {
        let Settings { error, power, .. } = Settings::default();
        let (variance, freedom_each) = match order {
            Order::Interleaved => (2.0 * self.within.powi(2), 1.0),
            Order::Apart => (2.0 * (self.within.powi(2) + self.between.powi(2)), 2.0),
        };
        Design { variance, freedom_each, lent: 0.0, error, power }
    }
}

/// Whether `name` is the name of a calibration plan.
pub fn is_calibration(name: &Name) -> bool {
    name.as_str().strip_prefix(CALIBRATION).is_some_and(|rest| rest.starts_with('-'))
}
