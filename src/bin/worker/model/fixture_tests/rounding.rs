//! Tests that single precision, bfloat16, channels-last and bfloat16 that is multiplied in single precision add only
//! rounding errors to a network's numbers.
//!
//! The effect of rounding is not guessed but determined in double precision, with the same network. Every weight and
//! every activation gets a random relative error of the size that [`Rounding`] derives. The multiplication does the
//! same to the gradients on their way back. The spread of the numbers over a few draws is the effect of rounding,
//! whatever the processor's kernels are.

use std::collections::BTreeMap;

use orchestrate::job::Device::Cpu;
use tch::{Device, Kind, Tensor};

use super::quantities::{AFTER_A_STEP, quantities};
use super::values::repeated;
use super::{Case, FIXTURE, Quantities, differences};
use crate::device::OpenDevice;
use crate::model::rounding::{Rounding, longest_sum};
use crate::model::{Layout, Products};
use crate::request::Backend;
use crate::shim::{Autocast, Half, onednn_has_bfloat16};

/// The number of draws of errors.
const DRAWS: usize = 3;

/// Differences beyond this many standard deviations are not due to rounding.
const DEVIATIONS: f64 = 6.0;

/// A bound above this share of the quantity could hide a wrong computation, so it checks nothing.
const LOOSE: f64 = 0.25;

macro_rules! networks {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                compare(stringify!($name));
            }
        )*
    };
}

// One of each kind: plain, residual, depthwise, concatenating, squeezing and without batch normalisation.
networks! { convnext_tiny densenet121 mobilenet_v2 mobilenet_v3_small resnet18 squeezenet1_1 }

/// How a network computes.
#[derive(Clone, Copy, Debug)]
struct Way {
    arithmetic: Rounding,
    channels_last: bool,
    /// Whether it multiplies in single precision, whatever the numbers.
    wide: bool,
}

impl Way {
    /// Whether this processor can train in this way, and it differs from the other ways.
    fn is_available(self) -> bool {
        let best = OpenDevice::open(Backend::Only(Cpu)).unwrap().bfloat16_products().unwrap();
        // See `Products::best`: without AVX-512, oneDNN's bfloat16 has no backward pass.
        let can_train = best == Some(Products::Onednn) || !onednn_has_bfloat16().unwrap();
        if self.arithmetic == Rounding::Single { !self.wide } else { self.wide || can_train }
    }
}

/// Compares the network in both arithmetics and both memory formats with the numbers in double precision. In bfloat16,
/// it multiplies as libtorch does, and in single precision.
fn compare(name: &str) {
    let case = Case::of(name);
    let _turn = case.prepare(name);
    let modes = case.modes().map(|(mode, expected)| (mode, without_step(expected)));
    let mut wrong = Vec::new();
    for arithmetic in [Rounding::Single, Rounding::Bfloat16] {
        let bounds = case.bounds(name, arithmetic, &modes);
        let ways = [(false, false), (true, false), (false, true), (true, true)];
        for (channels_last, wide) in ways {
            let way = Way { arithmetic, channels_last, wide };
            if !way.is_available() {
                continue;
            }
            let found = case.computed(name, way, &modes);
            for (((mode, expected), found), bounds) in modes.iter().zip(&found).zip(&bounds) {
                wrong.extend(differences(found, expected).filter_map(|(quantity, difference)| {
                    let bound = *bounds.get(quantity)?;
                    let what = format!("{name}, {way:?}, {mode}: {quantity}");
                    (difference > bound).then(|| format!("{what} is {difference:.1e} off, bound {bound:.1e}"))
                }));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All quantities except the one without a bound, which needs another forward pass.
fn without_step(expected: &Quantities) -> Quantities {
    expected
        .iter()
        .filter(|(name, _)| *name != AFTER_A_STEP)
        .map(|(name, numbers)| (name.clone(), numbers.clone()))
        .collect()
}

/// PyTorch's results in double precision, by the mode of the network.
type Modes = [(&'static str, Quantities); 2];

impl Case {
    /// The effect of rounding on each quantity in each mode, relative to its largest number. Quantities that rounding
    /// can change beyond recognition are left out.
    fn bounds(&self, name: &str, arithmetic: Rounding, modes: &Modes) -> [BTreeMap<String, f64>; 2] {
        let error = arithmetic.error(longest_sum(&self.network(name), FIXTURE.batch) as f64);
        let draws: Vec<[Quantities; 2]> =
            (0..DRAWS).map(|draw| self.disturbed(name, error, draw, modes)).collect();
        [0, 1].map(|mode| {
            let expected = &modes[mode].1;
            let mut squares: BTreeMap<&str, f64> = BTreeMap::new();
            for (quantity, off) in draws.iter().flat_map(|draw| differences(&draw[mode], expected)) {
                *squares.entry(quantity).or_default() += off * off;
            }
            let bound = |sum: f64| DEVIATIONS * (sum / DRAWS as f64).sqrt();
            let bounds: BTreeMap<String, f64> = squares
                .into_iter()
                .map(|(quantity, sum)| (quantity.to_owned(), bound(sum)))
                .filter(|(_, bound)| *bound <= LOOSE)
                .collect();
            let (least, is_single) = (["logits", "loss"], arithmetic == Rounding::Single);
            assert!(
                !bounds.is_empty() && (!is_single || least.iter().all(|name| bounds.contains_key(*name)))
            );
            bounds
        })
    }

    /// The quantities in double precision, with relative errors of standard deviation `error` in all factors.
    fn disturbed(&self, name: &str, error: f64, draw: usize, modes: &Modes) -> [Quantities; 2] {
        let mut model = self.model(name, Kind::Double, false);
        let factors = |what: &str, tensor: &Tensor| {
            // Uniform in -1 .. 1, so the variance is a third.
            repeated(&format!("{what} in draw {draw}"), &tensor.size(), |noise| {
                noise * (error * 3.0_f64.sqrt()) + 1.0
            })
        };
        tch::no_grad(|| {
            for (name, tensor) in model.state.iter().filter(|(_, tensor)| tensor.requires_grad()) {
                let _ = tensor.shallow_clone().g_mul_(&factors(&format!("noise on {name}"), tensor));
            }
        });
        let images = self.images(Kind::Double, false);
        modes.each_ref().map(|(mode, expected)| {
            quantities(&mut model, expected, |model| {
                let disturb = |index, output: Tensor| {
                    let factors = factors(&format!("noise on layer {index}"), &output);
                    output * factors
                };
                model.forward_through(&images, *mode == "train", disturb).unwrap()
            })
        })
    }

    /// The quantities as the worker computes them.
    fn computed(&self, name: &str, way: Way, modes: &Modes) -> [Quantities; 2] {
        let Way { arithmetic, channels_last, wide } = way;
        let mut model = self.model(name, Kind::Float, channels_last);
        if wide {
            model.multiply_wide();
        }
        let images = self.images(Kind::Float, channels_last);
        let found = modes.each_ref().map(|(mode, expected)| {
            quantities(&mut model, expected, |model| {
                let _autocast = (arithmetic == Rounding::Bfloat16)
                    .then(|| Autocast::begin(Device::Cpu, Half::Bfloat16).unwrap());
                model.forward(&images, *mode == "train").unwrap().to_kind(Kind::Float)
            })
        });
        let layout = if channels_last { Layout::ChannelsLast } else { Layout::Other };
        assert_eq!(model.feature_maps(), Some(layout), "{name}");
        found
    }
}
