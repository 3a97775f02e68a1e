//! Helpers for the tests of this room: operators with inputs in a short notation, such as `float32 8 3`.

use serde_json::Value;

use crate::protocol::OperatorSample;

use super::entry;
use super::inputs::Inputs;
use super::work::Work;

/// One call of `name`. An input is its type and its sizes, such as `float32 8 3`; `-` is no tensor.
pub(super) fn sample(name: &str, inputs: &[&str]) -> OperatorSample {
    let words = |input: &&str| -> Vec<String> { input.split(' ').map(str::to_owned).collect() };
    let inputs: Vec<Vec<String>> = inputs.iter().map(words).collect();
    let sizes = |words: &Vec<String>| words[1..].iter().map(|size| size.parse().unwrap()).collect();
    OperatorSample {
        name: name.to_owned(),
        shapes: inputs.iter().map(|words| (words[0] != "-").then(|| sizes(words))).collect(),
        types: inputs.iter().map(|words| (words[0] != "-").then(|| words[0].clone())).collect(),
        calls: 1,
        ..OperatorSample::default()
    }
}

/// `operator` with these arguments.
pub(super) fn with_arguments(operator: OperatorSample, arguments: Vec<Value>) -> OperatorSample {
    OperatorSample { arguments, ..operator }
}

/// The work of one call of `aten::name`, in an object of JSON the values of arguments by their places.
pub(super) fn work_of(name: &str, inputs: &[&str], arguments: &Value) -> Work {
    let mut places = vec![Value::Null; 20];
    for (place, value) in arguments.as_object().unwrap() {
        places[place.parse::<usize>().unwrap()] = value.clone();
    }
    let operator = with_arguments(sample(&format!("aten::{name}"), inputs), places);
    entry::named(&operator.name).unwrap().rule.work(&Inputs::of(&operator))
}

/// FLOPs and bytes that are both known.
pub(super) fn known(flops: u64, bytes: u64) -> Work {
    Work { flops: Some(flops), bytes: Some(bytes) }
}
