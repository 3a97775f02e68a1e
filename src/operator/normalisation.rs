//! Batch, layer and group normalisation.
//!
//! In training, batch normalisation needs the mean of a channel before it can write its first element. So an
//! implementation reads its input twice, or three times, unless a channel stays in a cache. Compulsory is one read. The
//! same is true of the backward pass, which sums over each channel first.

use super::count::{elements, product};
use super::inputs::{Element, Inputs, Tensor};
use super::work::Work;

/// `native_batch_norm(input, weight, bias, running_mean, running_var, …)`, in training if an argument at
/// `TRAINING` does not say otherwise. Then it changes the running statistics, and keeps a mean and a deviation per
/// channel for the backward pass.
pub(super) fn batch<const TRAINING: usize>(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    let is_training = inputs.flag(TRAINING) != Some(false);
    let parameters = (1..5).map(|place| inputs.bytes(place));
    let running = (3..5).map(|place| if is_training { inputs.bytes(place) } else { Some(0) });
    let kept = if is_training { kept(input, 2) } else { Some(0) };
    Work::moving([input.bytes(), input.bytes(), kept].into_iter().chain(parameters).chain(running))
}

/// `_native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, …)`, and others that write a
/// tensor like the first and change no input: it reads each of the first `READ` inputs.
pub(super) fn scaled<const READ: usize>(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    Work::moving((0..READ).map(|place| inputs.bytes(place)).chain([input.bytes()]))
}

/// `native_batch_norm_backward(gradient, input, weight, running_mean, running_var, mean, deviation, train, eps, mask)`,
/// and cuDNN's with input and gradient exchanged and without a mask. It reads the statistics that forward kept, and
/// writes the gradients of the input, the weight and the bias.
pub(super) fn batch_backward(inputs: &Inputs<'_>) -> Work {
    let (Some(gradient), Some(input)) = (inputs.tensor(0), inputs.tensor(1)) else { return Work::UNKNOWN };
    let [of_input, of_weight, of_bias] = inputs.mask(9).unwrap_or([true; 3]);
    let read = [0, 1, 2, 5, 6].map(|place| inputs.bytes(place));
    let parameter = inputs.tensor(2).map_or(kept(input, 1), |weight| weight.bytes());
    let written = [(of_input, gradient.bytes()), (of_weight, parameter), (of_bias, parameter)];
    Work::moving(read.into_iter().chain(computed(written)))
}

/// `batch_norm_stats(input, eps)`: a mean and a deviation per channel, for batches over several devices.
pub(super) fn batch_statistics(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    Work::moving([input.bytes(), kept(input, 2)])
}

/// `batch_norm_backward_reduce(gradient, input, mean, deviation, weight, …)`: four sums per channel.
pub(super) fn batch_sums(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(1) else { return Work::UNKNOWN };
    Work::moving((0..5).map(|place| inputs.bytes(place)).chain([kept(input, 4)]))
}

/// `native_layer_norm(input, normalized_shape, weight, bias, eps)`: keeps a mean and a deviation for each row.
pub(super) fn layer(inputs: &Inputs<'_>) -> Work {
    rows(inputs, &[2, 3], 2)
}

/// `_fused_rms_norm(input, normalized_shape, weight, eps)`: keeps a deviation for each row.
pub(super) fn root_mean_square(inputs: &Inputs<'_>) -> Work {
    rows(inputs, &[2], 1)
}

/// A normalisation of each row of the shape at 1, which keeps `statistics` numbers for it.
fn rows(inputs: &Inputs<'_>, parameters: &[usize], statistics: u64) -> Work {
    let (Some(input), Some(row)) = (inputs.tensor(0), inputs.sizes(1)) else { return Work::UNKNOWN };
    let rows = input.elements().zip(elements(&row)).and_then(|(all, row)| all.checked_div(row));
    let kept = product([rows, Some(statistics), Some(statistic(input).bytes)]);
    let parameters = parameters.iter().map(|place| inputs.bytes(*place));
    Work::moving([input.bytes(), input.bytes(), kept].into_iter().chain(parameters))
}

/// `native_layer_norm_backward(gradient, input, normalized_shape, mean, deviation, weight, bias, mask)`.
pub(super) fn layer_backward(inputs: &Inputs<'_>) -> Work {
    gradients(inputs, &[0, 1, 3, 4, 5], 5, 7)
}

/// `_fused_rms_norm_backward(gradient, input, normalized_shape, deviation, weight, mask)`.
pub(super) fn root_mean_square_backward(inputs: &Inputs<'_>) -> Work {
    gradients(inputs, &[0, 1, 3, 4], 4, 5)
}

/// `native_group_norm_backward(gradient, input, mean, deviation, weight, N, C, HxW, group, mask)`.
pub(super) fn group_backward(inputs: &Inputs<'_>) -> Work {
    gradients(inputs, &[0, 1, 2, 3, 4], 4, 9)
}

/// Reads the tensors at `read`, and writes the gradients of the input at 1, the weight at `weight` and the bias, by the
/// mask at `mask`.
fn gradients(inputs: &Inputs<'_>, read: &[usize], weight: usize, mask: usize) -> Work {
    let (Some(input), Some([of_input, of_weight, of_bias])) = (inputs.tensor(1), inputs.mask(mask)) else {
        return Work::UNKNOWN;
    };
    let parameter = inputs.bytes(weight);
    let written = [(of_input, input.bytes()), (of_weight, parameter), (of_bias, parameter)];
    Work::moving(read.iter().map(|place| inputs.bytes(*place)).chain(computed(written)))
}

/// `native_group_norm(input, weight, bias, N, C, HxW, group, eps)`: keeps a mean and a deviation for each group.
pub(super) fn group(inputs: &Inputs<'_>) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    let kept = product([
        input.sizes.first().copied(),
        inputs.number(6),
        input.element.map(|element| 2 * element.bytes),
    ]);
    let parameters = [1, 2].map(|place| inputs.bytes(place));
    Work::moving([input.bytes(), input.bytes(), kept].into_iter().chain(parameters))
}

/// Bytes of so many `statistics` per channel.
fn kept(input: Tensor<'_>, statistics: u64) -> Option<u64> {
    product([input.sizes.get(1).copied(), Some(statistics), Some(statistic(input).bytes)])
}

/// The type of statistics: single precision, or double for doubles.
fn statistic(input: Tensor<'_>) -> Element {
    input.element.filter(|element| element.bytes > Element::FLOAT32.bytes).unwrap_or(Element::FLOAT32)
}

/// The bytes of those gradients that are computed.
fn computed<const N: usize>(gradients: [(bool, Option<u64>); N]) -> impl Iterator<Item = Option<u64>> {
    gradients.into_iter().filter_map(|(is_computed, bytes)| is_computed.then_some(bytes))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{known, work_of};
    use serde_json::json;

    /// 2 images of 3 channels and 4 × 5 pixels: 120 elements.
    const BATCH: [&str; 5] = ["bfloat16 2 3 4 5", "float32 3", "float32 3", "float32 3", "float32 3"];

    #[test]
    fn batch_normalisation_reads_its_input_once() {
        let training = work_of("native_batch_norm", &BATCH, &json!({ "5": true }));
        // Read: weight, bias, running mean and variance. Written: the latter two, and a mean and a deviation.
        assert_eq!(training, known(0, 2 * 120 * 2 + 4 * 3 * (4 + 2 + 2)));
        assert_eq!(work_of("cudnn_batch_norm", &BATCH, &json!({})), training);
        let evaluation = work_of("native_batch_norm", &BATCH, &json!({ "5": false }));
        assert_eq!(evaluation, known(0, 2 * 120 * 2 + 4 * 3 * 4));
        assert_eq!(work_of("_native_batch_norm_legit_no_training", &BATCH, &json!({})), evaluation);
    }

    #[test]
    fn the_backward_pass_of_batch_normalisation_by_hand() {
        let inputs = [BATCH[0], BATCH[0], BATCH[1], BATCH[1], BATCH[1], BATCH[1], BATCH[1]];
        let all = work_of("native_batch_norm_backward", &inputs, &json!({ "9": [true, true, true] }));
        // Read: weight, mean, deviation. Written: the gradients of weight and bias.
        assert_eq!(all, known(0, 3 * 120 * 2 + 4 * 3 * (3 + 2)));
        assert_eq!(work_of("cudnn_batch_norm_backward", &inputs, &json!({})), all);
        let parameters = work_of("native_batch_norm_backward", &inputs, &json!({ "9": [false, true, true] }));
        assert_eq!(parameters, known(0, 2 * 120 * 2 + 4 * 3 * (3 + 2)));
    }

    #[test]
    fn batches_over_several_devices() {
        assert_eq!(work_of("batch_norm_stats", &BATCH[..1], &json!({})), known(0, 240 + 2 * 12));
        let sums = [BATCH[0], BATCH[0], BATCH[1], BATCH[1], BATCH[1]];
        assert_eq!(work_of("batch_norm_backward_reduce", &sums, &json!({})), known(0, 480 + 3 * 12 + 4 * 12));
        assert_eq!(work_of("batch_norm_elemt", &BATCH, &json!({})), known(0, 480 + 4 * 12));
    }

    /// 6 rows of 8 elements.
    #[test]
    fn layer_normalisation_by_hand() {
        let forward = ["float32 2 3 8", "-", "float32 8", "float32 8"];
        let work = work_of("native_layer_norm", &forward, &json!({ "1": [8] }));
        assert_eq!(work, known(0, 4 * (2 * 48 + 2 * 6 + 2 * 8)));
        let root = work_of("_fused_rms_norm", &forward[..3], &json!({ "1": [8] }));
        assert_eq!(root, known(0, 4 * (2 * 48 + 6 + 8)));

        let backward = [
            "float32 2 3 8",
            "float32 2 3 8",
            "-",
            "float32 2 3 1",
            "float32 2 3 1",
            "float32 8",
            "float32 8",
        ];
        let work = work_of("native_layer_norm_backward", &backward, &json!({ "7": [true, true, true] }));
        assert_eq!(work, known(0, 4 * (3 * 48 + 2 * 6 + 8 + 2 * 8)));
        let root = ["float32 2 3 8", "float32 2 3 8", "-", "float32 2 3 1", "float32 8"];
        let work = work_of("_fused_rms_norm_backward", &root, &json!({ "5": [true, true] }));
        assert_eq!(work, known(0, 4 * (3 * 48 + 6 + 8 + 8)));
    }

    #[test]
    fn group_normalisation_by_hand() {
        let forward = ["float32 2 4 5 5", "float32 4", "float32 4"];
        let work = work_of("native_group_norm", &forward, &json!({ "6": 2 }));
        assert_eq!(work, known(0, 4 * (2 * 200 + 2 * 2 * 2 + 2 * 4)));
        assert_eq!(work_of("native_group_norm", &forward, &json!({})).bytes, None, "unknown groups");
        let backward = ["float32 2 4 5 5", "float32 2 4 5 5", "float32 2 2", "float32 2 2", "float32 4"];
        let work = work_of("native_group_norm_backward", &backward, &json!({ "9": [true, true, true] }));
        assert_eq!(work, known(0, 4 * (3 * 200 + 2 * 4 + 4 + 2 * 4)));
    }
}
