//! Windows over images: pooling, and changes of resolution.

use super::count::{elements, product, sum};
use super::inputs::{Element, Inputs, Tensor};
use super::window::{Window, along};
use super::work::Work;

/// `max_pool2d_with_indices(input, kernel, stride, padding, dilation, ceil_mode)`: writes the output and an index for
/// each of its elements.
pub(super) fn largest(inputs: &Inputs<'_>) -> Work {
    pool(inputs, Some(4), 5, Element::INT64.bytes)
}

/// `mkldnn_max_pool2d(input, kernel, stride, padding, dilation, ceil_mode)`.
pub(super) fn largest_alone(inputs: &Inputs<'_>) -> Work {
    pool(inputs, Some(4), 5, 0)
}

/// `avg_pool2d(input, kernel, stride, padding, ceil_mode, …)`.
pub(super) fn mean(inputs: &Inputs<'_>) -> Work {
    pool(inputs, None, 4, 0)
}

/// `upsample_nearest2d(input, output_size, scales…)` with a scale for each axis, and `BETWEEN` arguments before them.
/// With other arguments it is the variant for factors, which calls this one.
pub(super) fn resize<const BETWEEN: usize>(inputs: &Inputs<'_>) -> Work {
    let is_variant = inputs.sizes(1).is_none_or(|image| inputs.len() != 2 + BETWEEN + image.len());
    if is_variant { Work::ZERO } else { to_size(inputs) }
}

/// `_adaptive_avg_pool2d(input, output_size)`.
pub(super) fn to_size(inputs: &Inputs<'_>) -> Work {
    let (Some(input), Some(image)) = (inputs.tensor(0), inputs.sizes(1)) else { return Work::UNKNOWN };
    Work::moving([input.bytes(), input.bytes_of(product([planes(input, image.len()), elements(&image)]))])
}

/// `avg_pool2d_backward(gradient, input, …)`: reads the gradient, and writes a tensor of the size of the input.
pub(super) fn backward(inputs: &Inputs<'_>) -> Work {
    match (inputs.tensor(0), inputs.tensor(1)) {
        (Some(gradient), Some(input)) => Work::moving([gradient.bytes(), input.bytes()]),
        _ => Work::UNKNOWN,
    }
}

/// `max_pool2d_with_indices_backward(gradient, input, kernel, stride, padding, dilation, ceil_mode, indices)`: reads
/// the gradient and the indices.
pub(super) fn largest_backward(inputs: &Inputs<'_>) -> Work {
    let work = backward(inputs);
    Work { bytes: sum([work.bytes, inputs.bytes(7)]), ..work }
}

/// `upsample_nearest2d_backward(gradient, output_size, input_size, …)`.
pub(super) fn resize_backward(inputs: &Inputs<'_>) -> Work {
    let (Some(gradient), Some(input)) = (inputs.tensor(0), inputs.sizes(2)) else { return Work::UNKNOWN };
    Work::moving([gradient.bytes(), gradient.bytes_of(elements(&input))])
}

/// Reads the input, and writes an element and `beside` bytes for each window.
fn pool(inputs: &Inputs<'_>, dilation: Option<usize>, ceil_mode: usize, beside: u64) -> Work {
    let Some(input) = inputs.tensor(0) else { return Work::UNKNOWN };
    let output = windows(inputs, input, dilation, ceil_mode);
    Work::moving([input.bytes(), input.bytes_of(output), product([output, Some(beside)])])
}

/// The windows over all channels of all images. If `ceil_mode` is not recorded, it must not matter.
fn windows(inputs: &Inputs<'_>, input: Tensor<'_>, dilation: Option<usize>, ceil_mode: usize) -> Option<u64> {
    let kernel = inputs.sizes(1)?;
    let strides = inputs.sizes(2).filter(|strides| !strides.is_empty()).unwrap_or_else(|| kernel.clone());
    let (paddings, dilations) =
        (inputs.sizes(3)?, dilation.map_or(Some(vec![1]), |place| inputs.sizes(place))?);
    let axes = kernel.len().max(2);
    let image = input.sizes.get(input.sizes.len().checked_sub(axes)?..)?;
    let along_axis = |(axis, size): (usize, &u64)| {
        let window = Window {
            kernel: along(&kernel, axis)?,
            stride: along(&strides, axis)?,
            padding: along(&paddings, axis)?,
            dilation: along(&dilations, axis)?,
        };
        let (fitting, touching) = (window.fitting(*size)?, window.touching(*size)?);
        match inputs.flag(ceil_mode) {
            Some(true) => Some(touching),
            Some(false) => Some(fitting),
            None => (fitting == touching).then_some(fitting),
        }
    };
    let windows = product(image.iter().enumerate().map(along_axis));
    product([planes(input, axes), windows])
}

/// The product of all sizes before the last `axes`.
fn planes(input: Tensor<'_>, axes: usize) -> Option<u64> {
    elements(input.sizes.get(..input.sizes.len().checked_sub(axes)?)?)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{known, work_of};
    use super::*;
    use serde_json::json;

    #[test]
    fn pooling_by_hand() {
        // 6 planes of 8 × 8 to 4 × 4.
        let lists = json!({ "1": [3, 3], "2": [2, 2], "3": [1, 1], "4": [1, 1], "5": false });
        let largest = work_of("max_pool2d_with_indices", &["float32 2 3 8 8"], &lists);
        assert_eq!(largest, known(0, 6 * (4 * 64 + (4 + 8) * 16)));
        let alone = work_of("mkldnn_max_pool2d", &["float32 2 3 8 8"], &lists);
        assert_eq!(alone, known(0, 6 * 4 * (64 + 16)));
        let inputs = ["float32 2 3 4 4", "float32 2 3 8 8", "-", "-", "-", "-", "-", "int64 2 3 4 4"];
        let backward = work_of("max_pool2d_with_indices_backward", &inputs, &json!({}));
        assert_eq!(backward, known(0, 6 * (4 * 16 + 4 * 64 + 8 * 16)));

        let mean = work_of("avg_pool2d", &["float32 2 3 8 8"], &json!({ "1": [2, 2], "2": [], "3": [0, 0] }));
        assert_eq!(mean, known(0, 6 * 4 * (64 + 16)));
        let mean_backward = work_of("avg_pool2d_backward", &inputs[..2], &json!({}));
        assert_eq!(mean_backward, known(0, 6 * 4 * (64 + 16)));
        let adaptive = work_of("_adaptive_avg_pool2d", &["float32 2 3 8 8"], &json!({ "1": [2, 2] }));
        assert_eq!(adaptive, known(0, 6 * 4 * (64 + 4)));
    }

    #[test]
    fn an_unrecorded_ceil_mode_matters_only_if_a_window_is_cut() {
        let bytes = |size: u64| {
            let lists = json!({ "1": [2], "2": [2], "3": [0], "4": [1] });
            work_of("max_pool2d_with_indices", &[&format!("float32 1 1 {size} {size}")], &lists).bytes
        };
        assert_eq!((bytes(8), bytes(9)), (Some(4 * 64 + 12 * 16), None));
    }

    #[test]
    fn resolutions_by_hand() {
        let inputs = ["float32 1 2 4 4", "-", "-", "-", "-"];
        let larger = known(0, 2 * 4 * (16 + 64));
        assert_eq!(work_of("upsample_nearest2d", &inputs[..4], &json!({ "1": [8, 8] })), larger);
        assert_eq!(work_of("upsample_bilinear2d", &inputs, &json!({ "1": [8, 8] })), larger);
        assert_eq!(work_of("upsample_bilinear2d", &inputs[..4], &json!({ "1": [8, 8] })), Work::ZERO);
        let lists = json!({ "1": [8, 8], "2": [1, 2, 4, 4] });
        let backward = work_of("upsample_nearest2d_backward", &["float32 1 2 8 8"], &lists);
        assert_eq!(backward, known(0, 2 * 4 * (16 + 64)));
    }
}
