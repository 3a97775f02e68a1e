//! The values of parameters, running statistics and images, by name and index, as in `networks.py`.

use std::sync::LazyLock;

use orchestrate::architecture::ParameterTensor;
use orchestrate::random::SplitMix64;
use tch::{Device, Kind, Tensor};

use super::{Case, FIXTURE};
use crate::model::step::sizes;
use crate::model::{Model, in_format};

impl Case {
    /// The network with all its parameters and running statistics filled. Dropout is left out.
    pub(super) fn model(&self, name: &str, kind: Kind, channels_last: bool) -> Model {
        let start = |tensor: &ParameterTensor| Ok(self.fill(&tensor.name, &sizes(&tensor.shape), kind));
        let network = self.network(name);
        let model = Model::starting(&network, (kind, Device::Cpu), channels_last, start).unwrap();
        for (name, tensor) in model.state.iter().filter(|(_, tensor)| !tensor.requires_grad()) {
            tensor.shallow_clone().copy_(&self.fill(name, &tensor.size(), kind));
        }
        model
    }

    /// The batch: images × 3 × height × width.
    pub(super) fn images(&self, kind: Kind, channels_last: bool) -> Tensor {
        let pixels = i64::from(self.input_size);
        in_format(&self.fill("images", &[FIXTURE.batch, 3, pixels, pixels], kind), channels_last).unwrap()
    }

    /// The values of a tensor: scaled in double precision, then rounded to single, so that every precision starts from
    /// the same values.
    fn fill(&self, name: &str, shape: &[i64], kind: Kind) -> Tensor {
        let (centre, spread) = centre_and_spread(name, shape, self.scale);
        repeated(name, shape, |numbers| (numbers * spread + centre).to_kind(Kind::Float).to_kind(kind))
    }
}

/// Doubles in -1 .. 1: the table, again and again, from the position given by the hash of the name, changed by
/// `change`. It sees each number of the table at most once, so of a large network's gigabyte of weights, only the
/// result is made.
pub(super) fn repeated(name: &str, shape: &[i64], change: impl Fn(Tensor) -> Tensor) -> Tensor {
    let (count, period) = (shape.iter().product::<i64>(), PERIOD as i64);
    let start = (fnv1a(name) % PERIOD as u64) as i64;
    TABLE.with(|table| {
        if start + count <= period {
            return change(table.narrow(0, start, count)).view(shape);
        }
        let rolled = Tensor::cat(&[table.narrow(0, start, period - start), table.narrow(0, 0, start)], 0);
        let whole = count.div_euclid(period) + 1;
        change(rolled).repeat([whole]).narrow(0, 0, count).view(shape)
    })
}

const PERIOD: usize = 1_000_003;

/// `PERIOD` numbers in -1 .. 1: the upper 24 bits of SplitMix64's outputs from state 0.
static NUMBERS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let mut random = SplitMix64::new(0);
    let number = |bits: u64| (bits >> 40) as f64 / f64::from(1 << 23) - 1.0;
    (0..PERIOD).map(|_| number(random.draw())).collect()
});

thread_local! {
    /// [`NUMBERS`] as a tensor, one per thread, because threads cannot share it.
    static TABLE: Tensor = Tensor::from_slice(&NUMBERS);
}

/// The 64-bit FNV-1a hash of the name.
fn fnv1a(name: &str) -> u64 {
    name.bytes()
        .fold(0xCBF2_9CE4_8422_2325, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The centre and the spread of a tensor's values, chosen so that activations stay of order 1.
fn centre_and_spread(name: &str, shape: &[i64], scale: f64) -> (f64, f64) {
    match name {
        "images" => (0.0, 1.7),
        _ if name.ends_with("running_mean") => (0.0, 0.1),
        _ if name.ends_with("running_var") => (1.0, 0.5),
        _ if name.ends_with("bias") => (1.0, 0.5),
        _ if name.ends_with("layer_scale") => (0.5, 0.25),
        "class_token" | "encoder.pos_embedding" => (0.0, 0.5),
        _ if shape.len() == 1 => (scale, 0.25),
        _ => (0.0, (6.0 / shape[1..].iter().product::<i64>() as f64).sqrt()),
    }
}
