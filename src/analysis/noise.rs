//! The noise of a machine, and which differences it leaves to be seen. [`super::calibration`] derives it from runs.
//!
//! All scatter is that of logs, so that 0.01 is 1 %.

use serde::Serialize;

use super::claim::{Claim, Sentence};
use super::compare::Settings;
use crate::job::{Device, Name};
use crate::record::HostFacts;
use crate::shared::Shared;
use crate::stats::{self, Design};
use crate::text::{count_text, significant};

/// What the names of the plans begin with whose runs tell a machine's noise. A device's name follows.
pub const CALIBRATION: &str = "calibration";

/// The noise of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Noise {
    /// How many blocks hold a run of both envs that counts.
    pub pairs: usize,
    /// How many runs are left out by their marks.
    pub left_out: usize,
    /// The median seconds of a window.
    pub window_s: f64,
    /// The standard deviation of the runs of one block.
    pub within: f64,
    /// Its confidence interval: the lower and the upper end.
    pub within_interval: (f64, f64),
    /// The standard deviation of blocks, beyond that of their runs. It is 0 if none is seen.
    pub between: f64,
    /// The drift per hour and the ends of its interval; absent for fewer than [`SLOPE_NEEDS`] blocks.
    pub drift_per_hour: Option<(f64, f64, f64)>,
    /// The median correlation of neighbouring iterations; absent if no worker wrote enough of them.
    pub autocorrelation: Option<f64>,
    /// The standard deviation of a run that the scatter of its own iterations explains.
    pub by_iterations: Option<f64>,
    /// How many processors are busy beside a run when nothing else is done; absent if nobody counts it, or too few runs
    /// tell.
    pub idle_processors: Option<f64>,
    /// What a comparison of the two envs says, which do not differ.
    pub verdict: &'static str,
    /// Whether that is wrong.
    pub is_wrong: bool,
}

/// The noise of a device, and where and when it was measured.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The name of the plan whose runs tell it.
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
    /// Whether it is of the machine of `host`.
    pub fn is_of(&self, host: &HostFacts) -> bool {
        self.host.is_machine_of(host)
    }

    /// What so many repeats resolve there, in a sentence without a full stop. `None` for fewer than three.
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

/// Whether the runs that are compared share their blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// They do: envs or values of one matrix, interleaved.
    Interleaved,
    /// They do not: runs of two nights, or before and after a change.
    Apart,
}

impl Noise {
    /// The least difference, as a share, that so many repeats of each side find in four of five cases. `None` for fewer
    /// than three.
    pub fn resolves(&self, repeats: usize, order: Order) -> Option<f64> {
        (repeats >= stats::MEAN_INTERVAL_NEEDS).then(|| -(-self.design(order).resolves(repeats)).exp_m1())
    }

    /// How many repeats of each side find a `difference`, a share, in four of five cases.
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

/// Whether runs of the plan called `name` tell a machine's noise.
pub fn is_calibration(name: &Name) -> bool {
    name.as_str().strip_prefix(CALIBRATION).is_some_and(|rest| rest.starts_with('-'))
}
