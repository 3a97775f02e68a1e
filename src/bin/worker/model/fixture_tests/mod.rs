//! Tests that a [`Model`] computes what PyTorch with torchvision does: every network, in inference and in training.
//!
//! `tests/fixtures/networks.json` has PyTorch's numbers in double precision. `tests/fixtures/networks.py` wrote and
//! describes them. Weights and images follow from the same formula on both sides. The comparison is in double precision
//! too, so it does not depend on the processor's kernels. [`rounding`] tests single precision, bfloat16 and
//! channels-last.

mod quantities;
mod rounding;
mod values;

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use orchestrate::architecture::{Network, ParameterTensor, for_each_network, network};
use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::step::sizes;
use super::{Layout, Model, use_test_threads};
use crate::optimizer::Optimizer;
use crate::shim;
use quantities::quantities;

/// The allowed difference from PyTorch's number, relative to the largest of its quantity. Rounding in double precision,
/// amplified ten thousand times, stays a hundred times below it.
const TOLERANCE: f64 = 1e-9;

/// The content of the file.
#[derive(Deserialize)]
struct Fixture {
    batch: i64,
    classes: u32,
    step: f64,
    losses: Losses,
    networks: BTreeMap<String, Case>,
}

/// The losses of the first iterations of training one network, by optimizer.
#[derive(Deserialize)]
struct Losses {
    network: String,
    sgd: Vec<f64>,
    adamw: Vec<f64>,
}

/// PyTorch's results with one network.
#[derive(Deserialize)]
struct Case {
    input_size: u32,
    /// The centre of the scales of normalisations.
    scale: f64,
    eval: Quantities,
    train: Quantities,
}

/// Numbers by the name of their quantity.
type Quantities = BTreeMap<String, Vec<f64>>;

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let text = include_str!("../../../../../tests/fixtures/networks.json");
    serde_json::from_str(text).expect("tests/fixtures/networks.py writes this format")
});

macro_rules! tests {
    ($($name:ident, $images:expr, $describe:expr;)*) => {
        $(
            #[test]
            fn $name() {
                compare(stringify!($name));
            }
        )*
    };
}

for_each_network!(tests);

/// Compares everything that the file has for this network, and reports every number that is too far from PyTorch's.
fn compare(name: &str) {
    let case = Case::of(name);
    let _turn = case.prepare(name);
    let mut model = case.model(name, Kind::Double, false);
    let images = case.images(Kind::Double, false);
    let mut wrong = Vec::new();
    for (mode, expected) in case.modes() {
        let found =
            quantities(&mut model, expected, |model| model.forward(&images, mode == "train").unwrap());
        let far = differences(&found, expected).filter(|(_, difference)| *difference > TOLERANCE);
        wrong.extend(far.map(|(quantity, difference)| {
            format!(
                "{name}, {mode}: {quantity} is {:?}, PyTorch {:?}: {difference:.1e} apart",
                found[quantity], expected[quantity]
            )
        }));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    drop(model);
    case.keeps_its_memory_format(name);
}

/// Training has the losses of PyTorch's optimizers.
#[test]
fn optimizers_are_pytorchs() {
    let Losses { network, sgd, adamw } = &FIXTURE.losses;
    let case = Case::of(network);
    let _turn = case.prepare(network);
    for (rule, expected) in
        [(orchestrate::job::Optimizer::Sgd, sgd), (orchestrate::job::Optimizer::AdamW, adamw)]
    {
        let mut model = case.model(network, Kind::Double, false);
        let images = case.images(Kind::Double, false);
        let optimizer = Optimizer::with_rule(rule, model.parameters(), false).unwrap();
        for expected in expected {
            let loss = quantities::loss(&model.forward(&images, true).unwrap());
            optimizer.backward(&loss, 1.0).unwrap();
            optimizer.step().unwrap();
            let found = loss.double_value(&[]);
            assert!((found - expected).abs() <= TOLERANCE * expected, "{rule}: {found}, PyTorch {expected}");
        }
    }
}

/// The largest difference of each expected quantity, relative to its largest number. It is infinite if a number is
/// missing or not a number.
fn differences<'a>(found: &Quantities, expected: &'a Quantities) -> impl Iterator<Item = (&'a str, f64)> {
    expected.iter().map(|(quantity, expected)| {
        let found = &found[quantity];
        let largest = expected.iter().map(|number| number.abs()).fold(0.0, f64::max);
        let apart = found.iter().zip(expected).map(|(one, other)| (one - other).abs());
        let most =
            apart.fold(0.0, |most, one| if one.is_finite() { f64::max(most, one) } else { f64::INFINITY });
        let difference =
            if found.len() == expected.len() { most / largest.max(f64::MIN_POSITIVE) } else { f64::INFINITY };
        (quantity.as_str(), difference)
    })
}

impl Case {
    /// The file's part for this network.
    fn of(name: &str) -> &'static Case {
        let case = FIXTURE.networks.get(name);
        case.unwrap_or_else(|| {
            panic!("{name} is not in tests/fixtures/networks.json: run `just fixtures {name}`")
        })
    }

    /// The description of the network, without dropout.
    fn network(&self, name: &str) -> Network {
        network(name, self.input_size, FIXTURE.classes).unwrap().without_dropout()
    }

    /// Checks that feature maps keep the memory format of the images. In single precision, because libtorch computes
    /// convolutions of doubles in one format only.
    fn keeps_its_memory_format(&self, name: &str) {
        let options = (Kind::Float, Device::Cpu);
        let mut zeros: BTreeMap<Vec<u64>, Tensor> = BTreeMap::new();
        let mut zeros = |tensor: &ParameterTensor| {
            let made = zeros.entry(tensor.shape.clone());
            Ok(made.or_insert_with(|| Tensor::zeros(sizes(&tensor.shape), options)).shallow_clone())
        };
        for (channels_last, layout) in [(false, Layout::Other), (true, Layout::ChannelsLast)] {
            let mut model = Model::starting(&self.network(name), options, channels_last, &mut zeros).unwrap();
            let images = self.images(Kind::Float, channels_last);
            let _ = tch::no_grad(|| model.forward(&images, false)).unwrap();
            assert_eq!(model.feature_maps(), Some(layout), "{name}");
        }
    }

    /// PyTorch's results, by the mode of the network.
    fn modes(&self) -> [(&'static str, &Quantities); 2] {
        [("eval", &self.eval), ("train", &self.train)]
    }

    /// Prepares libtorch. Large networks wait for their turn, because weights and gradients of each take a gigabyte or
    /// more.
    fn prepare(&self, name: &str) -> Option<MutexGuard<'static, ()>> {
        const LARGE: u64 = 50_000_000;
        static ONE_LARGE: Mutex<()> = Mutex::new(());
        use_test_threads();
        shim::keep_memory();
        let is_large = self.network(name).parameters() > LARGE;
        is_large.then(|| ONE_LARGE.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
