//! Softmax, losses and gathers.
//!
//! The number of rows that a gather reads depends on how many of its indices are equal. Profiles do not show that, so
//! the bytes of gathers are unknown.

use super::count::{product, sum};
use super::inputs::{Element, Inputs};
use super::work::Work;

/// A gather: it does not multiply matrices, and shapes do not determine its bytes.
pub(super) fn gather(_: &Inputs<'_>) -> Work {
    Work { flops: Some(0), bytes: None }
}

/// `_softmax(input, dimension, half_to_float)`.
pub(super) fn softmax(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    let written = match (inputs.flag(2), input.element) {
        (Some(true), _) => Some(Element::FLOAT32),
        (None, Some(element)) if element.bytes < Element::FLOAT32.bytes => None,
        (_, element) => element,
    };
    Work::moving([input.bytes(), product([input.elements(), written.map(|element| element.bytes)])])
}

/// `_softmax_backward_data(gradient, output, dimension, input_dtype)`.
pub(super) fn softmax_backward(inputs: &Inputs<'_>) -> Work {
    let (Some(gradient), Some(output)) = (inputs.tensor(0), inputs.tensor(1)) else { return Work::UNKNOWN };
    // Numbers of half the size stay so; others may have been half as large in forward.
    let same = gradient.element.filter(|element| element.bytes < Element::FLOAT32.bytes);
    let written = inputs.element(3).or(same).map(|element| element.bytes);
    Work::moving([gradient.bytes(), output.bytes(), product([gradient.elements(), written])])
}

/// `nll_loss_forward(input, target, weight, reduction, ignore_index)`: gathers one element of the input, and one of the
/// weights of the classes, for each target.
pub(super) fn negative_log_likelihood(inputs: &Inputs<'_>) -> Work {
    let (Some(input), Some(target)) = (inputs.tensor(0), inputs.tensor(1)) else { return Work::UNKNOWN };
    let weights = inputs.tensor(2).map_or(Some(0), |weights| weights.bytes_of(target.elements()));
    let losses = match inputs.number(3) {
        Some(0) => target.elements(),
        Some(_) => Some(1),
        None => None,
    };
    let written = input.bytes_of(sum([losses, Some(1)]));
    Work::moving([target.bytes(), input.bytes_of(target.elements()), weights, written])
}

/// `nll_loss_backward(gradient, input, target, weight, reduction, ignore_index, total_weight)`: writes one element for
/// each target. The zeros around them are the work of `zero_`, which it calls.
pub(super) fn negative_log_likelihood_backward(inputs: &Inputs<'_>) -> Work {
    let (Some(input), Some(target)) = (inputs.tensor(1), inputs.tensor(2)) else { return Work::UNKNOWN };
    let weights = inputs.tensor(3).map_or(Some(0), |weights| weights.bytes_of(target.elements()));
    let read = [inputs.bytes(0), target.bytes(), weights, inputs.bytes(6)];
    Work::moving(read.into_iter().chain([input.bytes_of(target.elements())]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{known, work_of};
    use serde_json::json;

    #[test]
    fn softmax_by_hand() {
        let of = |input: &str, arguments| work_of("_log_softmax", &[input, "-", "-"], &arguments);
        assert_eq!(of("float32 8 10", json!({})), known(0, 80 * 8));
        assert_eq!(of("bfloat16 8 10", json!({ "2": false })), known(0, 80 * 4));
        assert_eq!(of("float16 8 10", json!({ "2": true })), known(0, 80 * 6));
        assert_eq!(of("float16 8 10", json!({})).bytes, None);
        let backward = |arguments| {
            work_of("_log_softmax_backward_data", &["float32 8 10", "float32 8 10", "-", "-"], &arguments)
        };
        assert_eq!(backward(json!({ "3": 6 })), known(0, 80 * 12));
        assert_eq!(backward(json!({ "3": 5 })), known(0, 80 * 10));
        assert_eq!(backward(json!({})).bytes, None);
    }

    #[test]
    fn a_loss_gathers_one_number_per_target() {
        let forward =
            |arguments| work_of("nll_loss_forward", &["float32 8 10", "int64 8", "-", "-", "-"], &arguments);
        assert_eq!(forward(json!({ "3": 1 })), known(0, 8 * 8 + 8 * 4 + 2 * 4));
        assert_eq!(forward(json!({ "3": 0 })), known(0, 8 * 8 + 8 * 4 + 9 * 4));
        let inputs = ["float32", "float32 8 10", "int64 8", "-", "-", "-", "float32"];
        let backward = work_of("nll_loss_backward", &inputs, &json!({}));
        assert_eq!(backward, known(0, 4 + 8 * 8 + 4 + 8 * 4));
    }

    #[test]
    fn gathers_have_no_bytes() {
        assert_eq!(work_of("index_select", &["float32 100 8", "-", "int64 5"], &json!({})).bytes, None);
        assert_eq!(work_of("index", &["float32 100 8", "-"], &json!({})).flops, Some(0));
    }
}
