//! That a [`Model`] computes what PyTorch with torchvision does: every network, in both memory formats, in inference and
//! in training.
//!
//! `tests/fixtures/networks.json` holds PyTorch's numbers in double precision; `tests/fixtures/networks.py` wrote them
//! and says what they are. Weights and images follow on both sides from the same formula, [`fill`].

use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use orchestrate::architecture::{NETWORKS, Network, ParameterTensor, network};
use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use super::step::sizes;
use super::{Layout, Model, in_format};
use crate::shim;

/// How far a number may be from PyTorch's, relative to the largest of its quantity.
const TOLERANCE: f64 = 1e-4;

/// Networks of more parameters are compared one at a time: weights and gradients of each take half a gigabyte or more.
const LARGE: u64 = 50_000_000;

static ONE_LARGE: Mutex<()> = Mutex::new(());

/// What stands in the file.
#[derive(Deserialize)]
struct Fixture {
    batch: i64,
    classes: u32,
    step: f64,
    networks: BTreeMap<String, Case>,
}

/// What PyTorch computed with one network.
#[derive(Deserialize)]
struct Case {
    input_size: u32,
    #[serde(flatten)]
    values: Values,
    eval: Quantities,
    train: Quantities,
}

/// What the values of its tensors follow from, beside their names.
#[derive(Clone, Copy, Deserialize)]
struct Values {
    /// Around what the scales of normalisations lie.
    scale: f64,
    seed: u64,
}

/// Numbers by the name of what they are.
type Quantities = BTreeMap<String, Vec<f64>>;

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let text = include_str!("../../../../tests/fixtures/networks.json");
    serde_json::from_str(text).expect("tests/fixtures/networks.py writes what is read here")
});

macro_rules! networks {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                compare(stringify!($name));
            }
        )*

        #[test]
        fn every_network_is_compared() {
            assert_eq!([$(stringify!($name)),*].as_slice(), NETWORKS);
            assert_eq!(FIXTURE.networks.keys().len(), NETWORKS.len());
        }
    };
}

networks! {
    alexnet convnext_tiny densenet121 densenet169 efficientnet_b0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small
    resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d squeezenet1_0 squeezenet1_1 vgg11 vgg11_bn vgg13
    vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn vit_b_16 wide_resnet50_2
}

/// Computes everything that the file has of this network and tells all numbers that are too far from PyTorch's.
fn compare(name: &str) {
    // Tests run side by side: a pool of threads for each would only make them wait for one another.
    tch::set_num_threads(1);
    shim::keep_memory();
    let case = &FIXTURE.networks[name];
    let network = network(name, case.input_size, FIXTURE.classes).unwrap().without_dropout();
    let alone = || ONE_LARGE.lock().unwrap_or_else(PoisonError::into_inner);
    let _alone = (network.parameters() > LARGE).then(alone);
    let table = Tensor::from_slice(&TABLE);
    let shape = [FIXTURE.batch, 3, i64::from(case.input_size), i64::from(case.input_size)];
    let images = fill(&table, "images", &shape, case.values);
    let mut wrong = Vec::new();
    for channels_last in [false, true] {
        let mut model = model(&table, &network, channels_last, case.values);
        let images = in_format(&images, channels_last).unwrap();
        for (mode, expected) in [("eval", &case.eval), ("train", &case.train)] {
            let found = compute(&mut model, &images, mode == "train", expected);
            let format = if channels_last { "channels-last" } else { "contiguous" };
            wrong.extend(
                differences(&found, expected).map(|told| format!("{name}, {format}, {mode}: {told}")),
            );
        }
        let layout = if channels_last { Layout::ChannelsLast } else { Layout::Other };
        assert_eq!(model.feature_maps(), Some(layout), "{name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// One sentence for each quantity that is too far from what is expected.
fn differences(found: &Quantities, expected: &Quantities) -> impl Iterator<Item = String> {
    expected.iter().filter_map(|(quantity, expected)| {
        let found = &found[quantity];
        let largest = expected.iter().map(|number| number.abs()).fold(0.0, f64::max);
        let apart = found.iter().zip(expected).map(|(one, other)| (one - other).abs());
        // Not a number is larger than any bound.
        let apart = apart.fold(0.0, |most, one| if one <= most { most } else { one }) / largest;
        let near = found.len() == expected.len() && apart <= TOLERANCE;
        (!near).then(|| format!("{quantity} is {found:?}, PyTorch {expected:?}: {apart:.1e} apart"))
    })
}

// ---- What the network computes -------------------------------------------------------------------------------------

/// The quantities that `expected` names, of one forward and one backward pass.
fn compute(model: &mut Model, images: &Tensor, training: bool, expected: &Quantities) -> Quantities {
    const AFTER_A_STEP: &str = "loss after a step";
    let labels =
        (Tensor::arange(FIXTURE.batch, (Kind::Int64, Device::Cpu)) * 3).remainder(i64::from(FIXTURE.classes));
    model.parameters().iter().for_each(|parameter| parameter.shallow_clone().zero_grad());
    let logits = model.forward(images, training).unwrap();
    let loss = logits.cross_entropy_for_logits(&labels);
    loss.backward();
    let names = || expected.keys().map(String::as_str);
    let mut found: Quantities = names()
        .filter(|&name| name != AFTER_A_STEP)
        .map(|name| match name {
            "logits" => (name.to_owned(), doubles(&logits)),
            "loss" => (name.to_owned(), doubles(&loss)),
            _ => (name.to_owned(), tensors(model, name)),
        })
        .collect();
    if names().any(|name| name == AFTER_A_STEP) {
        let gradient = found["gradient of all"][0];
        step(model, FIXTURE.step * loss.double_value(&[]) / (gradient * gradient));
        let loss =
            tch::no_grad(|| model.forward(images, training)).unwrap().cross_entropy_for_logits(&labels);
        found.insert(AFTER_A_STEP.to_owned(), doubles(&loss));
    }
    found
}

/// Goes `rate` gradients downhill.
fn step(model: &Model, rate: f64) {
    tch::no_grad(|| {
        for parameter in model.parameters() {
            let _ = parameter.shallow_clone().g_sub_(&(parameter.grad() * rate));
        }
    });
}

/// What the file says of a model's tensors: norms of gradients; of running statistics the root mean square, and of a
/// single one its first four values.
fn tensors(model: &Model, quantity: &str) -> Vec<f64> {
    let named = |wanted: &str| -> &Tensor {
        let (_, tensor) =
            model.state.iter().find(|(name, _)| name == wanted).expect("a name of the state dict");
        tensor
    };
    if quantity == "gradient of all" {
        let squares: f64 = model.parameters().iter().map(|parameter| sum_of_squares(&parameter.grad())).sum();
        return vec![squares.sqrt()];
    }
    if let Some(name) = quantity.strip_prefix("gradient of ") {
        return vec![sum_of_squares(&named(name).grad()).sqrt()];
    }
    if let Some(word) = quantity.strip_prefix("all ") {
        let all = model.state.iter().filter(|(name, _)| name.ends_with(word)).map(|(_, tensor)| tensor);
        return vec![root_mean_square(all)];
    }
    let statistic = named(quantity);
    [vec![root_mean_square([statistic])], doubles(&statistic.narrow(0, 0, 4))].concat()
}

fn root_mean_square<'a>(tensors: impl IntoIterator<Item = &'a Tensor>) -> f64 {
    let (mut squares, mut count) = (0.0, 0);
    for tensor in tensors {
        squares += sum_of_squares(tensor);
        count += tensor.numel();
    }
    (squares / count as f64).sqrt()
}

/// In double precision: of millions of squares, single precision would keep too few digits. A part at a time, because
/// libtorch converts all that it is given before it adds, which for the half gigabyte of a large network is the longest
/// part of its test.
fn sum_of_squares(tensor: &Tensor) -> f64 {
    const PART: i64 = 1 << 20;
    let parts = tensor.detach().flatten(0, -1).split(PART, 0);
    parts.iter().map(|part| part.norm_scalaropt_dtype(2.0, Kind::Double).double_value(&[]).powi(2)).sum()
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    Vec::try_from(tensor.detach().to_kind(Kind::Double).flatten(0, -1)).unwrap()
}

// ---- Values by name and index, as `networks.py` has them -----------------------------------------------------------

const PERIOD: usize = 1_000_003;

/// `PERIOD` numbers in -1 .. 1: the upper 24 bits of SplitMix64's outputs from state 0.
static TABLE: LazyLock<Vec<f64>> = LazyLock::new(|| {
    (1..=PERIOD as u64)
        .map(|index| {
            let mut z = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^= z >> 31;
            (z >> 40) as f64 / f64::from(1 << 23) - 1.0
        })
        .collect()
});

/// The 64-bit FNV-1a hash of the name.
fn fnv1a(name: &str) -> u64 {
    name.bytes()
        .fold(0xCBF2_9CE4_8422_2325, |state, byte| (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Around what, and how far, the values of a tensor lie: so that activations stay of order 1.
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

/// The table from the place that the hash of name and seed says, again and again; scaled in double, rounded to single.
fn fill(table: &Tensor, name: &str, shape: &[i64], Values { scale, seed }: Values) -> Tensor {
    let (centre, spread) = centre_and_spread(name, shape, scale);
    let (count, period) = (shape.iter().product::<i64>(), PERIOD as i64);
    let start = (fnv1a(&format!("{name} {seed}")) % PERIOD as u64) as i64;
    let rolled = Tensor::cat(&[table.narrow(0, start, period - start), table.narrow(0, 0, start)], 0);
    let values = (rolled.narrow(0, 0, count.min(period)) * spread + centre).to_kind(Kind::Float);
    let whole = count.div_euclid(period) + 1;
    if count <= period { values } else { values.repeat([whole]).narrow(0, 0, count) }.view(shape)
}

/// The network with all its parameters and running statistics filled.
fn model(table: &Tensor, network: &Network, channels_last: bool, values: Values) -> Model {
    let start = |tensor: &ParameterTensor| Ok(fill(table, &tensor.name, &sizes(&tensor.shape), values));
    let model = Model::starting(network, Device::Cpu, channels_last, start).unwrap();
    for (name, tensor) in model.state.iter().filter(|(_, tensor)| !tensor.requires_grad()) {
        tensor.shallow_clone().copy_(&fill(table, name, &tensor.size(), values));
    }
    model
}
