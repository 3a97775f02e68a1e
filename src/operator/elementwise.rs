//! Arithmetic on each element, and sums over some dimensions. None of it multiplies matrices.

use super::count::{elements, product};
use super::inputs::{Element, Inputs, Tensor, broadcast, promoted};
use super::work::Work;

/// A function of the elements of the tensors among the first `ARGUMENTS` arguments. A tensor after these is the one
/// that the result is written to. An operator whose name ends with `_` writes to its first input.
pub(super) fn map<const ARGUMENTS: usize>(inputs: &Inputs<'_>) -> Work {
    let tensors: Vec<Tensor<'_>> = inputs.tensors(0..ARGUMENTS).collect();
    mapped::<ARGUMENTS>(inputs, &tensors, promoted(tensors.iter().copied()))
}

/// The same, if the result is a truth value.
pub(super) fn compare<const ARGUMENTS: usize>(inputs: &Inputs<'_>) -> Work {
    let tensors: Vec<Tensor<'_>> = inputs.tensors(0..ARGUMENTS).collect();
    mapped::<ARGUMENTS>(inputs, &tensors, Some(Element::BOOL))
}

fn mapped<const ARGUMENTS: usize>(
    inputs: &Inputs<'_>,
    tensors: &[Tensor<'_>],
    result: Option<Element>,
) -> Work {
    let sizes = broadcast(tensors.iter().map(|tensor| tensor.sizes));
    let written = match tensors.first() {
        None => return Work::UNKNOWN,
        Some(first) if inputs.are_changed() => first.bytes(),
        Some(_) => match inputs.tensor(ARGUMENTS) {
            Some(output) => output.bytes(),
            None => product([sizes.as_deref().and_then(elements), result.map(|element| element.bytes)]),
        },
    };
    Work::moving(tensors.iter().map(Tensor::bytes).chain([written]))
}

/// `native_dropout(input, p, train)`: writes the output and a mask.
pub(super) fn dropout(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    Work::moving([input.bytes(), input.bytes(), product([input.elements(), Some(Element::BOOL.bytes)])])
}

/// `fill_(tensor, value)`, `bernoulli_(tensor, p)`, and others that write to their first input without reading it.
pub(super) fn fill(inputs: &Inputs<'_>) -> Work {
    match inputs.tensor(0) {
        Some(_) => Work::moving((0..inputs.len()).map(|place| inputs.bytes(place))),
        None => Work::UNKNOWN,
    }
}

/// `copy_(tensor, source)`: reads the source, writes the tensor. A copy of a tensor with the same type and the same
/// sizes still moves it: layouts or devices differ.
pub(super) fn copy(inputs: &Inputs<'_>) -> Work {
    match (inputs.tensor(0), inputs.tensor(1)) {
        (Some(written), Some(read)) => Work::moving([written.bytes(), read.bytes()]),
        _ => Work::UNKNOWN,
    }
}

/// `sum(input, dimensions, keepdim, dtype)`. Without a list of dimensions, the sum is over all.
pub(super) fn sum(inputs: &Inputs<'_>) -> Work {
    // `sum(input, dtype)` has no dimensions.
    let kind = if inputs.len() <= 2 { 1 } else { 3 };
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    let element = match inputs.element(kind) {
        None if input.element.is_some_and(|element| element.is_integer) => Some(Element::INT64),
        other => other.or(input.element),
    };
    reduced(inputs, input, Reduction { dimensions: 1, output: 4, element, results: 1 })
}

/// `amax(input, dimensions, keepdim)`, and others whose result has the type of their input.
pub(super) fn reduce(inputs: &Inputs<'_>) -> Work {
    reduce_at::<1>(inputs)
}

/// `norm(input, p, dimensions, …)`.
pub(super) fn norm(inputs: &Inputs<'_>) -> Work {
    reduce_at::<2>(inputs)
}

fn reduce_at<const DIMENSIONS: usize>(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    let reduction =
        Reduction { dimensions: DIMENSIONS, output: usize::MAX, element: input.element, results: 1 };
    reduced(inputs, input, reduction)
}

/// `var_mean(input, dimensions, …)`: two results.
pub(super) fn reduce_twice(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    let reduction = Reduction { dimensions: 1, output: usize::MAX, element: input.element, results: 2 };
    reduced(inputs, input, reduction)
}

/// How a sum over dimensions is written.
struct Reduction {
    /// The place of its list of dimensions.
    dimensions: usize,
    /// The place of the tensor that it may be written to.
    output: usize,
    element: Option<Element>,
    /// The number of results, which all have the same size.
    results: u64,
}

fn reduced(inputs: &Inputs<'_>, input: Tensor<'_>, reduction: Reduction) -> Work {
    let left = match inputs.tensor(reduction.output) {
        Some(output) => return Work::moving([input.bytes(), output.bytes()]),
        None => remaining(inputs, input, reduction.dimensions),
    };
    let written = product([left, reduction.element.map(|element| element.bytes), Some(reduction.results)]);
    Work::moving([input.bytes(), written])
}

/// Elements that are left of `input` after a sum over the dimensions in the list at `place`.
fn remaining(inputs: &Inputs<'_>, input: Tensor<'_>, place: usize) -> Option<u64> {
    let rank = i64::try_from(input.sizes.len()).ok()?;
    let summed = inputs.integers(place).unwrap_or_default();
    let is_summed =
        |axis: i64| summed.is_empty() || summed.contains(&axis) || summed.contains(&(axis - rank));
    product((0..rank).zip(input.sizes).map(|(axis, size)| Some(if is_summed(axis) { 1 } else { *size })))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{known, work_of};
    use serde_json::json;

    #[test]
    fn inputs_count_unbroadcast_and_the_result_broadcast() {
        let none = json!({});
        assert_eq!(work_of("add", &["float32 2 3", "float32 3", "-"], &none), known(0, 4 * (6 + 3 + 6)));
        assert_eq!(work_of("mul", &["bfloat16 2 3", "float32"], &none), known(0, 2 * 6 + 4 + 2 * 6));
        assert_eq!(work_of("mul", &["bfloat16 6", "float32 6"], &none), known(0, 2 * 6 + 4 * 6 + 4 * 6));
        assert_eq!(
            work_of("where", &["bool 6", "float32 6", "float32 6"], &none),
            known(0, 6 * (1 + 4 + 4 + 4))
        );
        assert_eq!(work_of("gt", &["float32 6", "-"], &none), known(0, 6 * (4 + 1)));
        assert_eq!(work_of("add", &["float32 2", "float32 3", "-"], &none).bytes, None);
    }

    #[test]
    fn an_operator_in_place_reads_and_writes_its_first_input() {
        let none = json!({});
        assert_eq!(work_of("add_", &["float32 6", "bfloat16 6", "-"], &none), known(0, 6 * (4 + 2 + 4)));
        assert_eq!(work_of("relu_", &["float32 6"], &none), known(0, 6 * 8));
        assert_eq!(work_of("gt_", &["float32 6", "-"], &none), known(0, 6 * 8));
        assert_eq!(
            work_of("addcdiv_", &["float32 6", "float32 6", "float32 6", "-"], &none),
            known(0, 6 * 16)
        );
    }

    #[test]
    fn a_tensor_after_the_arguments_is_written_and_not_read() {
        let inputs = ["bfloat16 6", "-", "-", "bfloat16 6"];
        assert_eq!(work_of("clamp", &inputs, &json!({})), known(0, 6 * 4));
        let backward = ["float32 6", "float32 6", "-", "float32 6"];
        assert_eq!(work_of("threshold_backward", &backward, &json!({})), known(0, 6 * 12));
    }

    #[test]
    fn fills_write_and_copies_read_too() {
        let none = json!({});
        assert_eq!(work_of("fill_", &["float32 6", "-"], &none), known(0, 24));
        assert_eq!(work_of("zero_", &["int64 6"], &none), known(0, 48));
        assert_eq!(work_of("bernoulli_", &["bfloat16 6", "-", "-"], &none), known(0, 12));
        assert_eq!(work_of("copy_", &["bfloat16 6", "float32 6", "-"], &none), known(0, 36));
        assert_eq!(work_of("copy_", &["float32 2 3", "float32 3", "-"], &none), known(0, 36), "broadcast");
        assert_eq!(work_of("native_dropout", &["float32 6", "-", "-"], &none), known(0, 6 * 9));
    }

    #[test]
    fn sums_leave_the_other_dimensions() {
        let of = |inputs: &[&str], arguments| work_of("sum", inputs, &arguments);
        let four = ["float32 2 3 5", "-", "-", "-"];
        assert_eq!(of(&four, json!({ "1": [-1] })), known(0, 4 * (30 + 6)));
        assert_eq!(of(&four, json!({ "1": [0, 2], "2": true })), known(0, 4 * (30 + 3)));
        assert_eq!(of(&four, json!({ "1": [] })), known(0, 4 * (30 + 1)), "all");
        assert_eq!(of(&["bfloat16 30", "-"], json!({})), known(0, 2 * 31));
        assert_eq!(of(&["bfloat16 30", "-"], json!({ "1": 6 })), known(0, 2 * 30 + 4), "as float32");
        assert_eq!(of(&["bool 30", "-"], json!({})), known(0, 30 + 8));
        let output = ["bfloat16 2 3", "-", "-", "-", "float32 2 1"];
        assert_eq!(of(&output, json!({ "1": [-1] })), known(0, 2 * 6 + 4 * 2));
        let norm = ["float32 2 3", "-", "-", "-", "-"];
        assert_eq!(work_of("linalg_vector_norm", &norm, &json!({ "1": 2.0 })), known(0, 4 * 7));
        assert_eq!(work_of("var_mean", &norm, &json!({ "1": [1] })), known(0, 4 * (6 + 2 * 2)));
    }
}
