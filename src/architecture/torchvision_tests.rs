//! Compares descriptions with torchvision's networks: the names, shapes and starts of parameters, dropouts and costs.
//!
//! `tests/fixtures/descriptions.json` describes torchvision's networks; `tests/fixtures/descriptions.py` generates it.
//! The worker's tests compare what the networks compute.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::{Distribution, Layer, NETWORKS, Network, ParameterTensor, check, for_each_network, network};

/// The relative tolerance for torchvision's numbers: a few roundings of double precision.
const TOLERANCE: f64 = 1e-12;

/// The content of the file.
#[derive(Deserialize)]
struct Fixture {
    networks: BTreeMap<String, Expected>,
}

/// One of torchvision's networks.
#[derive(Deserialize)]
struct Expected {
    published: Published,
    published_weights_change: serde_json::Value,
    /// The probabilities of dropouts and stochastic depths, by the name of their module.
    drops: Vec<(String, f64)>,
    /// Shapes, and the distributions of their start values: a kind and its numbers.
    tensors: Vec<(Vec<u64>, String, Vec<f64>)>,
    parameters: Branch,
}

/// The metadata of torchvision's weights.
#[derive(Deserialize)]
struct Published {
    parameters: u64,
    /// Rounded to three places. For a small network, that is coarser than 0.1 %, so rounded numbers are compared.
    gmac: f64,
    least_input_size: u32,
}

/// Trainable tensors by a part of their names, as indices into [`Expected::tensors`].
#[derive(Deserialize)]
#[serde(untagged)]
enum Branch {
    /// A parameter outside a module.
    Parameter(usize),
    /// A module's weight, and its bias if it has one.
    Module(Vec<usize>),
    Modules(BTreeMap<String, Branch>),
}

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| {
    let text = include_str!("../../tests/fixtures/descriptions.json");
    serde_json::from_str(text).expect("tests/fixtures/descriptions.py writes this format")
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

/// The networks' names in a fixture.
#[derive(Deserialize)]
struct Names {
    networks: BTreeMap<String, serde::de::IgnoredAny>,
}

/// The worker's tests read the second file. They need libtorch; this one does not.
#[test]
fn the_fixtures_contain_exactly_the_listed_networks() {
    for (file, text) in [
        ("descriptions.json", include_str!("../../tests/fixtures/descriptions.json")),
        ("networks.json", include_str!("../../tests/fixtures/networks.json")),
    ] {
        let held: Names = serde_json::from_str(text).unwrap();
        for &name in NETWORKS {
            let is_held = held.networks.contains_key(name);
            assert!(is_held, "{name} is not in tests/fixtures/{file}: run `just fixtures {name}`");
        }
        for name in held.networks.keys() {
            let is_known = NETWORKS.contains(&name.as_str());
            assert!(is_known, "tests/fixtures/{file} has {name}, not a network: run `just fixtures`");
        }
    }
}

/// Compares the description with torchvision's network, and reports all differences.
fn compare(name: &str) {
    let expected = FIXTURE.networks.get(name).unwrap_or_else(|| {
        panic!("{name} is not in tests/fixtures/descriptions.json: run `just fixtures {name}`")
    });
    let network = network(name, 224, 1000).unwrap();
    let wrong = [
        costs(&network, &expected.published),
        least_images(name, expected.published.least_input_size),
        parameters(&network, expected),
        drops(&network, &expected.drops),
    ]
    .concat();
    assert!(wrong.is_empty(), "{name} is not torchvision's:\n{}", wrong.join("\n"));
    assert!(
        expected.published_weights_change == serde_json::json!({}),
        "torchvision sets {} in {name} when it loads published weights. `worker --weights` does not, so it would \
         compute something else with them: let the worker refuse `--weights` for {name}, and test that here",
        expected.published_weights_change
    );
}

/// Differences in the published numbers.
fn costs(network: &Network, published: &Published) -> Vec<String> {
    let differences = [
        ("parameters", network.parameters().to_string(), published.parameters.to_string()),
        (
            "GMAC of the forward pass",
            format!("{:.3}", network.forward_macs() as f64 / 1e9),
            format!("{:.3}", published.gmac),
        ),
    ];
    let differing = differences.into_iter().filter(|(_, found, expected)| found != expected);
    differing.map(|(what, found, expected)| format!("{what}: {found}, torchvision {expected}")).collect()
}

/// Differences in the smallest images. A network of patches is published for one size and does not work just below it.
fn least_images(name: &str, least: u32) -> Vec<String> {
    let works = |side: u32| check(name, side, 1000).is_ok();
    let mut wrong = Vec::new();
    if !works(least) {
        wrong.push(format!("images of {least} pixels: refused, torchvision takes them"));
    }
    if works(least - 1) {
        wrong.push(format!("images of {} pixels: accepted, torchvision needs {least}", least - 1));
    }
    wrong
}

/// Differences in the trainable tensors.
fn parameters(network: &Network, expected: &Expected) -> Vec<String> {
    let mut unseen = BTreeMap::new();
    expected.parameters.flatten(String::new(), &mut unseen);
    let mut wrong = Vec::new();
    for tensor in network.layers().iter().flat_map(Layer::parameter_tensors) {
        let ParameterTensor { name, shape, start, .. } = tensor;
        let Some(index) = unseen.remove(&name) else {
            wrong.push(format!("{name}: torchvision has none"));
            continue;
        };
        let (expected_shape, expected_kind, expected_numbers) = &expected.tensors[index];
        if shape != *expected_shape {
            wrong.push(format!("{name}: of shape {shape:?}, torchvision's {expected_shape:?}"));
        }
        let (kind, numbers) = filling(start);
        if kind != expected_kind || !are_near(&numbers, expected_numbers) {
            wrong.push(format!(
                "{name}: starts as {kind} {numbers:?}, torchvision's as {expected_kind} {expected_numbers:?}"
            ));
        }
    }
    wrong.extend(unseen.into_keys().map(|name| format!("{name}: the description has none")));
    wrong
}

/// Differences in dropouts and stochastic depths, in the order of execution. Those with probability 0 do nothing and
/// are ignored.
fn drops(network: &Network, expected: &[(String, f64)]) -> Vec<String> {
    let drop = |layer: &Layer| Some((layer.name.clone(), *layer.op.clone().drop_probability()?));
    let found: Vec<(String, f64)> =
        network.layers().iter().filter_map(drop).filter(|(_, probability)| *probability > 0.0).collect();
    let same = |one: &(String, f64), other: &(String, f64)| one.0 == other.0 && is_near(one.1, other.1);
    let text = |drop: Option<&(String, f64)>| {
        drop.map_or("none".to_owned(), |(name, probability)| format!("{name} with probability {probability}"))
    };
    (0..found.len().max(expected.len()))
        .map(|index| (found.get(index), expected.get(index)))
        .filter(|(found, expected)| {
            !found.zip(*expected).is_some_and(|(found, expected)| same(found, expected))
        })
        .map(|(found, expected)| format!("dropout: {}, torchvision's: {}", text(found), text(expected)))
        .collect()
}

fn is_near(number: f64, other: f64) -> bool {
    (number - other).abs() <= TOLERANCE * other.abs()
}

fn are_near(numbers: &[f64], others: &[f64]) -> bool {
    numbers.len() == others.len() && numbers.iter().zip(others).all(|(one, other)| is_near(*one, *other))
}

impl Branch {
    /// Adds the tensors below this branch by their full names.
    fn flatten(&self, name: String, found: &mut BTreeMap<String, usize>) {
        match self {
            Branch::Parameter(index) => drop(found.insert(name, *index)),
            Branch::Module(indices) => {
                for (word, index) in ["weight", "bias"].into_iter().zip(indices) {
                    found.insert(format!("{name}.{word}"), *index);
                }
            }
            Branch::Modules(branches) => {
                for (word, branch) in branches {
                    let dot = if name.is_empty() { "" } else { "." };
                    branch.flatten(format!("{name}{dot}{word}"), found);
                }
            }
        }
    }
}

/// The form in the fixture: a kind and its numbers.
fn filling(start: Distribution) -> (&'static str, Vec<f64>) {
    match start {
        Distribution::Constant(value) => ("constant", vec![value]),
        Distribution::Normal { deviation } => ("normal", vec![0.0, deviation]),
        Distribution::TruncatedNormal { deviation } => ("truncated_normal", vec![0.0, deviation, -2.0, 2.0]),
        Distribution::Uniform { bound } => ("uniform", vec![-bound, bound]),
    }
}
