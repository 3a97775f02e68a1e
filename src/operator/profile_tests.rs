//! The operators of whole training steps, as libtorch's profiler recorded them.
//!
//! `tests/fixtures/operators.json` has those of each network; `tests/fixtures/operators.py` generates it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::architecture::{NETWORKS, network};
use crate::protocol::OperatorSample;

use super::{Work, work, works};

#[derive(Deserialize)]
struct Fixture {
    /// Images of a step.
    batch: u64,
    networks: BTreeMap<String, Vec<Line>>,
}

/// Calls, name, shapes, arguments.
#[derive(Deserialize)]
struct Line(u64, String, Vec<Option<Vec<u64>>>, Vec<Value>);

impl From<Line> for OperatorSample {
    fn from(Line(calls, name, shapes, arguments): Line) -> Self {
        let types = shapes.iter().map(|sizes| sizes.as_ref().map(|_| "float32".to_owned())).collect();
        OperatorSample { name, calls, shapes, types, arguments, ..OperatorSample::default() }
    }
}

fn fixture() -> Fixture {
    let text = include_str!("../../tests/fixtures/operators.json");
    serde_json::from_str(text).expect("tests/fixtures/operators.py writes this format")
}

/// The profile and the description count independently of each other: one counts the tensors that were multiplied, the
/// other the layers of the network.
#[test]
fn the_work_of_all_operators_is_the_cost_of_the_network() {
    let Fixture { batch, networks } = fixture();
    let recorded: BTreeSet<&str> = networks.keys().map(String::as_str).collect();
    assert_eq!(recorded, BTreeSet::from_iter(NETWORKS.iter().copied()));
    for (name, lines) in networks {
        let operators: Vec<OperatorSample> = lines.into_iter().map(Into::into).collect();
        let expected = batch * network(&name, 224, 1000).unwrap().training_flops();
        let alone: Vec<Work> = operators.iter().map(work).collect();
        for works in [works(&operators), alone] {
            let flops = works.iter().zip(&operators).map(|(work, it)| Some(work.flops? * it.calls));
            assert_eq!(flops.sum::<Option<u64>>(), Some(expected), "{name}");
        }
    }
}

#[test]
fn bytes_are_known_wherever_flops_are() {
    for (name, lines) in fixture().networks {
        for operator in lines.into_iter().map(OperatorSample::from) {
            assert!(work(&operator).bytes.is_some(), "{name}: {operator:?}");
        }
    }
}
