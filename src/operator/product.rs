//! Matrix products. One of n × k by k × m takes n·k·m multiply-accumulates.

use super::count::{elements, product, sum};
use super::inputs::{Inputs, Tensor};
use super::work::Work;

/// The product of the matrices, or batches of matrices, at `LEFT` and `LEFT + 1`. The tensors before them are added to
/// it.
pub(super) fn matrices<const LEFT: usize>(inputs: &Inputs<'_>) -> Work {
    let (Some(left), Some(right)) = (inputs.tensor(LEFT), inputs.tensor(LEFT + 1)) else {
        return Work::UNKNOWN;
    };
    let Some((output, inner)) = output(left.sizes, right.sizes) else { return Work::UNKNOWN };
    let output = elements(&output);
    let added = (0..LEFT).map(|place| inputs.bytes(place));
    let moved = added.chain([left.bytes(), right.bytes(), left.bytes_of(output)]);
    Work::multiplying(product([output, Some(inner)]), sum(moved))
}

/// The sizes of the product of `left` and `right`, and the length of the sums in it. `right` may be a vector.
fn output(left: &[u64], right: &[u64]) -> Option<(Vec<u64>, u64)> {
    let ([rows @ .., inner], [batch @ .., first, last]) = (left, right) else {
        let ([rows @ .., inner], [length]) = (left, right) else { return None };
        return (inner == length).then(|| (rows.to_vec(), *inner));
    };
    let fits = inner == first && rows.len() == batch.len() + 1 && rows.starts_with(batch);
    fits.then(|| (rows.iter().copied().chain([*last]).collect(), *inner))
}

/// `_scaled_mm(left, right, …)`: matrices of 8-bit numbers, whose product has a type that no profile shows.
pub(super) fn scaled(inputs: &Inputs<'_>) -> Work {
    Work { bytes: None, ..matrices::<0>(inputs) }
}

/// `linear(input, weight, bias)`, with a weight of output × input features.
pub(super) fn linear(inputs: &Inputs<'_>) -> Work {
    let Some(layer) = Linear::of(inputs.tensor(0), inputs.tensor(1)) else { return Work::UNKNOWN };
    let moved = [layer.input.bytes(), layer.weight.bytes(), inputs.bytes(2), layer.output_bytes()];
    Work::multiplying(layer.macs(), sum(moved))
}

/// `linear_backward(input, gradient, weight, mask)`.
pub(super) fn linear_backward(inputs: &Inputs<'_>) -> Work {
    let layer = Linear::of(inputs.tensor(0), inputs.tensor(2));
    let (Some(layer), Some([of_input, of_weight, of_bias])) = (layer, inputs.mask(3)) else {
        return Work::UNKNOWN;
    };
    let both = sum([layer.input.bytes(), layer.weight.bytes()]);
    let count = |is_computed: bool, of: Option<u64>| if is_computed { of } else { Some(0) };
    let macs = sum([count(of_input, layer.macs()), count(of_weight, layer.macs())]);
    let bias = layer.weight.bytes_of(Some(layer.features()));
    let moved = [inputs.bytes(1), count(of_input, both), count(of_weight, both), count(of_bias, bias)];
    Work::multiplying(macs, sum(moved))
}

/// `mkldnn_linear_backward_input(input_size, gradient, weight)`.
pub(super) fn linear_backward_input(inputs: &Inputs<'_>) -> Work {
    let (Some(gradient), Some(weight)) = (inputs.tensor(1), inputs.tensor(2)) else { return Work::UNKNOWN };
    let written = inputs.sizes(0).and_then(|sizes| elements(&sizes));
    let macs = product([gradient.elements(), weight.sizes.get(1).copied()]);
    Work::multiplying(macs, sum([gradient.bytes(), weight.bytes(), gradient.bytes_of(written)]))
}

/// `mkldnn_linear_backward_weights(gradient, input, weight, bias_defined)`.
pub(super) fn linear_backward_weights(inputs: &Inputs<'_>) -> Work {
    let Some(layer) = Linear::of(inputs.tensor(1), inputs.tensor(2)) else { return Work::UNKNOWN };
    let bias = match inputs.flag(3) {
        Some(true) => layer.weight.bytes_of(Some(layer.features())),
        Some(false) => Some(0),
        None => None,
    };
    Work::multiplying(layer.macs(), sum([inputs.bytes(0), layer.input.bytes(), layer.weight.bytes(), bias]))
}

/// A linear layer with its input.
struct Linear<'a> {
    input: Tensor<'a>,
    weight: Tensor<'a>,
}

impl<'a> Linear<'a> {
    fn of(input: Option<Tensor<'a>>, weight: Option<Tensor<'a>>) -> Option<Self> {
        let (input, weight) = (input?, weight?);
        let [_, features] = weight.sizes else { return None };
        (input.sizes.last() == Some(features)).then_some(Linear { input, weight })
    }

    /// Features of the output.
    fn features(&self) -> u64 {
        self.weight.sizes[0]
    }

    fn macs(&self) -> Option<u64> {
        product([self.input.elements(), Some(self.features())])
    }

    fn output_bytes(&self) -> Option<u64> {
        let (_, rows) = self.input.sizes.split_last()?;
        self.input.bytes_of(product([elements(rows), Some(self.features())]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{known, work_of};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn products_by_hand() {
        let none = json!({});
        let expected = known(2 * 2 * 3 * 5, 4 * (6 + 15 + 10));
        assert_eq!(work_of("mm", &["float32 2 3", "float32 3 5"], &none), expected);
        let bias = known(2 * 2 * 3 * 5, 4 * (6 + 15 + 10 + 5));
        assert_eq!(work_of("addmm", &["float32 5", "float32 2 3", "float32 3 5"], &none), bias);
        let batches = known(2 * 7 * 2 * 3 * 5, 2 * 7 * (6 + 15 + 10));
        assert_eq!(work_of("bmm", &["bfloat16 7 2 3", "bfloat16 7 3 5"], &none), batches);
        let vector = work_of("addmv_", &["float32 2", "float32 2 3", "float32 3"], &none);
        assert_eq!(vector, known(12, 4 * (2 + 6 + 3 + 2)));
        assert_eq!(work_of("dot", &["float32 3", "float32 3"], &none), known(6, 4 * (3 + 3 + 1)));
        assert_eq!(work_of("mm", &["float32 2 3", "float32 4 5"], &none), Work::UNKNOWN);
        let scaled = work_of("_scaled_mm", &["float8_e4m3fn 2 3", "float8_e4m3fn 3 5"], &none);
        assert_eq!(scaled, Work { flops: Some(60), bytes: None });
    }

    #[test]
    fn a_linear_layer_and_its_gradients_by_hand() {
        // 2 × 7 tokens from 3 to 5 features.
        let (input, weight, output) = (2 * 7 * 3, 5 * 3, 2 * 7 * 5);
        let (tensors, macs) = (["float32 2 7 3", "float32 5 3", "float32 5"], 2 * 7 * 3 * 5);
        let expected = known(2 * macs, 4 * (input + weight + 5 + output));
        assert_eq!(work_of("mkldnn_linear", &tensors, &json!({})), expected);

        let backward = ["float32 2 7 3", "float32 2 7 5", "float32 5 3"];
        let all = work_of("linear_backward", &backward, &json!({ "3": [true, true, true] }));
        assert_eq!(all, known(4 * macs, 4 * (output + 2 * input + 2 * weight + 5)));
        let one = work_of("linear_backward", &backward, &json!({ "3": [false, true, false] }));
        assert_eq!(one, known(2 * macs, 4 * (output + input + weight)));

        let of_input = work_of(
            "mkldnn_linear_backward_input",
            &["-", backward[1], backward[2]],
            &json!({ "0": [2, 7, 3] }),
        );
        assert_eq!(of_input, known(2 * macs, 4 * (output + weight + input)));
        let of_weight = work_of(
            "mkldnn_linear_backward_weights",
            &[backward[1], backward[0], backward[2]],
            &json!({ "3": true }),
        );
        assert_eq!(of_weight, known(2 * macs, 4 * (output + input + weight + 5)));
    }

    proptest! {
        #[test]
        fn work_equals_the_count_of_three_loops(b in 1..4u64, n in 1..6u64, k in 1..6u64, m in 1..6u64) {
            let mut macs = 0;
            for _ in 0..b {
                for _ in 0..n {
                    for _ in 0..m {
                        macs += (0..k).count() as u64;
                    }
                }
            }
            let work = work_of("bmm", &[&format!("float64 {b} {n} {k}"), &format!("float64 {b} {k} {m}")], &json!({}));
            prop_assert_eq!(work, known(2 * macs, 8 * b * (n * k + k * m + n * m)));
        }
    }
}
