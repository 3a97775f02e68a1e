//! Convolutions: forward, and the gradients of the input, the weight and the bias.
//!
//! Let N be the batch, C and K the channels of input and output, G the groups, k the elements of the window.
//! - **Regular:** weight K × C/G × window. Each element of the output takes C/G · k multiply-accumulates.
//! - **Transposed:** weight C × K/G × window. Each element of the input takes K/G · k of them.
//!
//! Both are the elements of one side times all sizes of the weight but the first, so groups need not be known. Each of
//! the two gradients takes as many as forward. Additions of padding count as multiplications, as in `architecture` and
//! in PyTorch's `torch.utils.flop_counter`; those of biases do not count.

use super::count::{elements, product, sum};
use super::inputs::{Inputs, Tensor};
use super::window::{Window, along};
use super::work::Work;

/// The places of the arguments of a forward pass. Input and weight are at 0 and 1.
#[derive(Clone, Copy)]
pub(super) struct Forward {
    /// Further tensors that are read, such as the bias.
    added: &'static [usize],
    geometry: Geometry,
    direction: Direction,
}

/// The places of the arguments of a backward pass.
#[derive(Clone, Copy)]
pub(super) struct Backward {
    gradient: usize,
    input: usize,
    geometry: Geometry,
    direction: Direction,
    /// Which gradients are computed: of the input, the weight and the bias.
    mask: usize,
}

/// The places of lists, each with one number per axis. One that the operator does not have is `None`.
#[derive(Clone, Copy)]
struct Geometry {
    stride: usize,
    padding: usize,
    dilation: Option<usize>,
}

/// Whether the convolution is transposed.
#[derive(Clone, Copy)]
enum Direction {
    Regular,
    /// With the places of the list `output_padding` and of the number of groups.
    Transposed {
        output_padding: usize,
        groups: Option<usize>,
    },
    /// An argument decides.
    Flag {
        transposed: usize,
        output_padding: usize,
        groups: Option<usize>,
    },
}

const fn geometry(stride: usize, padding: usize, dilation: usize) -> Geometry {
    Geometry { stride, padding, dilation: Some(dilation) }
}

/// `(input, weight, padding, stride, dilation, …)`
pub(super) const CUDNN: Forward =
    Forward { added: &[], geometry: geometry(3, 2, 4), direction: Direction::Regular };
/// `(input, weight, padding, output_padding, stride, dilation, groups, …)`
pub(super) const CUDNN_TRANSPOSED: Forward = Forward {
    added: &[],
    geometry: geometry(4, 2, 5),
    direction: Direction::Transposed { output_padding: 3, groups: Some(6) },
};
/// `(input, weight, bias, stride, padding, dilation, …)`
pub(super) const CUDNN_RELU: Forward =
    Forward { added: &[2], geometry: geometry(3, 4, 5), direction: Direction::Regular };
/// `(input, weight, z, alpha, bias, stride, padding, dilation, …)`
pub(super) const CUDNN_ADD_RELU: Forward =
    Forward { added: &[2, 4], geometry: geometry(5, 6, 7), direction: Direction::Regular };
/// `(input, weight, bias, padding, stride, dilation, …)`
pub(super) const ONEDNN: Forward =
    Forward { added: &[2], geometry: geometry(4, 3, 5), direction: Direction::Regular };
/// `(input, weight, bias, padding, output_padding, stride, dilation, groups, …)`
pub(super) const MIOPEN_TRANSPOSED: Forward = Forward {
    added: &[2],
    geometry: geometry(5, 3, 6),
    direction: Direction::Transposed { output_padding: 4, groups: Some(7) },
};
/// `(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)`
pub(super) const OVERRIDEABLE: Forward = Forward {
    added: &[2],
    geometry: geometry(3, 4, 5),
    direction: Direction::Flag { transposed: 6, output_padding: 7, groups: Some(8) },
};
/// `(input, weight, bias, padding, stride)`
pub(super) const NNPACK: Forward = Forward {
    added: &[2],
    geometry: Geometry { stride: 4, padding: 3, dilation: None },
    direction: Direction::Regular,
};
/// `(input, weight, kernel_size, bias, stride, padding)`
pub(super) const SLOW: Forward = Forward {
    added: &[3],
    geometry: Geometry { stride: 4, padding: 5, dilation: None },
    direction: Direction::Regular,
};
/// `(input, weight, kernel_size, bias, stride, padding, dilation)`
pub(super) const DILATED: Forward =
    Forward { added: &[3], geometry: geometry(4, 5, 6), direction: Direction::Regular };
/// `(input, weight, kernel_size, bias, stride, padding, output_padding, dilation)`
pub(super) const SLOW_TRANSPOSED: Forward = Forward {
    added: &[3],
    geometry: geometry(4, 5, 7),
    direction: Direction::Transposed { output_padding: 6, groups: None },
};

/// `(gradient, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask)`
pub(super) const BACKWARD: Backward = Backward {
    gradient: 0,
    input: 1,
    geometry: geometry(4, 5, 6),
    direction: Direction::Flag { transposed: 7, output_padding: 8, groups: Some(9) },
    mask: 10,
};
/// `(gradient, input, weight, stride, padding, dilation, transposed, output_padding, groups, mask)`
pub(super) const OVERRIDEABLE_BACKWARD: Backward = Backward {
    geometry: geometry(3, 4, 5),
    direction: Direction::Flag { transposed: 6, output_padding: 7, groups: Some(8) },
    mask: 9,
    ..BACKWARD
};
/// `(gradient, input, weight, kernel_size, stride, padding, mask)`
pub(super) const SLOW_BACKWARD: Backward = Backward {
    geometry: Geometry { stride: 4, padding: 5, dilation: None },
    direction: Direction::Regular,
    mask: 6,
    ..BACKWARD
};
/// `(input, gradient, weight, padding, stride, dilation, groups, mask)`
pub(super) const MPS_BACKWARD: Backward =
    Backward { gradient: 1, input: 0, geometry: geometry(4, 3, 5), direction: Direction::Regular, mask: 7 };
/// `(input, gradient, weight, padding, output_padding, stride, dilation, groups, mask)`
pub(super) const MPS_TRANSPOSED_BACKWARD: Backward = Backward {
    gradient: 1,
    input: 0,
    geometry: geometry(5, 3, 6),
    direction: Direction::Transposed { output_padding: 4, groups: Some(7) },
    mask: 8,
};

/// A forward pass.
pub(super) fn forward(inputs: &Inputs<'_>, places: &Forward) -> Work {
    let (Some(input), Some(weight)) = (inputs.tensor(0), inputs.tensor(1)) else { return Work::UNKNOWN };
    let Some(is_transposed) = places.direction.is_transposed(inputs) else { return Work::UNKNOWN };
    let convolution = Convolution { inputs, geometry: places.geometry, input, weight };
    let output = if is_transposed {
        places.direction.transposed_output(&convolution)
    } else {
        convolution.regular_output()
    };
    let output = output.as_deref().and_then(elements);
    let macs = if is_transposed { macs(input.elements(), weight) } else { macs(output, weight) };
    let added = places.added.iter().map(|place| inputs.bytes(*place));
    let read = [input.bytes(), weight.bytes()].into_iter().chain(added);
    Work::multiplying(macs, sum(read.chain([input.bytes_of(output)])))
}

/// A backward pass.
pub(super) fn backward(inputs: &Inputs<'_>, places: &Backward) -> Work {
    let tensors = [places.gradient, places.input, 2].map(|place| inputs.tensor(place));
    let ([Some(gradient), Some(input), Some(weight)], Some(mask)) = (tensors, inputs.mask(places.mask))
    else {
        return Work::UNKNOWN;
    };
    let convolution = Convolution { inputs, geometry: places.geometry, input, weight };
    let macs = convolution.macs_of_a_gradient(gradient, places.direction);
    let products = mask[..2].iter().filter(|is_computed| **is_computed).count() as u64;
    let [of_input, of_weight, of_bias] = mask;
    let bias = weight.bytes_of(gradient.sizes.get(1).copied());
    let bytes = [
        (true, gradient.bytes()),
        // The gradient of the input reads the weight and is as large as the input; that of the weight the reverse.
        (of_input, sum([weight.bytes(), input.bytes()])),
        (of_weight, sum([input.bytes(), weight.bytes()])),
        (of_bias, bias),
    ];
    let moved = bytes.into_iter().filter_map(|(is_moved, bytes)| is_moved.then_some(bytes));
    Work::multiplying(product([macs, Some(products)]), sum(moved))
}

/// Multiply-accumulates: those of all sizes of the weight but the first, for each of `elements`.
fn macs(elements_of_one_side: Option<u64>, weight: Tensor<'_>) -> Option<u64> {
    product([elements_of_one_side, elements(weight.sizes.get(1..)?)])
}

impl Direction {
    /// `None` if an argument decides that is not recorded.
    fn is_transposed(self, inputs: &Inputs<'_>) -> Option<bool> {
        match self {
            Direction::Regular => Some(false),
            Direction::Transposed { .. } => Some(true),
            Direction::Flag { transposed, .. } => inputs.flag(transposed),
        }
    }

    /// The sizes of the output, if it is transposed.
    fn transposed_output(self, convolution: &Convolution<'_, '_>) -> Option<Vec<u64>> {
        let (Direction::Transposed { output_padding, groups }
        | Direction::Flag { output_padding, groups, .. }) = self
        else {
            return None;
        };
        let (inputs, weight) = (convolution.inputs, convolution.weight);
        let groups = groups.map_or(Some(1), |place| inputs.number(place))?;
        let channels = weight.sizes.get(1)?.checked_mul(groups)?;
        let added = inputs.sizes(output_padding)?;
        convolution
            .output(channels, |window, axis, size| window.covered(size)?.checked_add(along(&added, axis)?))
    }
}

/// The tensors of a convolution, and how its window moves.
struct Convolution<'c, 'a> {
    inputs: &'c Inputs<'a>,
    geometry: Geometry,
    input: Tensor<'a>,
    weight: Tensor<'a>,
}

impl Convolution<'_, '_> {
    fn regular_output(&self) -> Option<Vec<u64>> {
        self.output(*self.weight.sizes.first()?, |window, _, size| window.fitting(size))
    }

    /// The sizes of an output with these channels; `size` returns the size along an axis.
    fn output(&self, channels: u64, size: impl Fn(Window, usize, u64) -> Option<u64>) -> Option<Vec<u64>> {
        let [batch, _, image @ ..] = self.input.sizes else { return None };
        let sizes = image.iter().enumerate().map(|(axis, length)| size(self.window(axis)?, axis, *length));
        [Some(*batch), Some(channels)].into_iter().chain(sizes).collect()
    }

    fn window(&self, axis: usize) -> Option<Window> {
        if self.weight.sizes.len() != self.input.sizes.len() {
            return None;
        }
        let list = |place| along(&self.inputs.sizes(place)?, axis);
        Some(Window {
            kernel: *self.weight.sizes.get(axis + 2)?,
            stride: list(self.geometry.stride)?,
            padding: list(self.geometry.padding)?,
            dilation: self.geometry.dilation.map_or(Some(1), list)?,
        })
    }

    /// Multiply-accumulates of the gradient of the input, or of that of the weight. If `transposed` is not recorded,
    /// the sizes of the gradient show it; `None` if both directions fit and differ.
    fn macs_of_a_gradient(&self, gradient: Tensor<'_>, direction: Direction) -> Option<u64> {
        let known = direction.is_transposed(self.inputs);
        let regular = self.is_regular_for(gradient).then(|| macs(gradient.elements(), self.weight));
        let transposed = self.is_transposed_for(gradient).then(|| macs(self.input.elements(), self.weight));
        match (known, regular, transposed) {
            (Some(false) | None, Some(regular), None) => regular,
            (Some(false), Some(regular), _) => regular,
            (Some(true) | None, None, Some(transposed)) => transposed,
            (Some(true), _, Some(transposed)) => transposed,
            (None, Some(regular), Some(transposed)) => regular.filter(|_| regular == transposed),
            _ => None,
        }
    }

    fn is_regular_for(&self, gradient: Tensor<'_>) -> bool {
        self.regular_output().is_some_and(|sizes| sizes == gradient.sizes)
    }

    /// Whether `gradient` is that of a transposed convolution's output. The padding of the output is less than a
    /// stride or a dilation.
    fn is_transposed_for(&self, gradient: Tensor<'_>) -> bool {
        let ([batch, channels, image @ ..], [same_batch, of_gradient, larger @ ..]) =
            (self.input.sizes, gradient.sizes)
        else {
            return false;
        };
        let fits = |(axis, (size, larger)): (usize, (&u64, &u64))| {
            let window = self.window(axis)?;
            let padding = larger.checked_sub(window.covered(*size)?)?;
            Some(padding < window.stride.max(window.dilation))
        };
        let groups_fit = self.weight.sizes.get(1).is_some_and(|size| *size > 0 && of_gradient % size == 0);
        batch == same_batch
            && self.weight.sizes.first() == Some(channels)
            && groups_fit
            && image.len() == larger.len()
            && image.iter().zip(larger).enumerate().all(|axis| fits(axis) == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{known, work_of};
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// torchvision's `resnet18`, first layer: 112 × 112 outputs, each of 64 channels with 3 × 7 × 7 products.
    #[test]
    fn the_first_layer_of_a_resnet_by_hand() {
        let inputs = ["float32 8 3 224 224", "float32 64 3 7 7", "-"];
        let lists = json!({ "3": [3, 3], "4": [2, 2], "5": [1, 1] });
        let output = 8 * 64 * 112 * 112;
        let flops = 2 * output * 3 * 7 * 7;
        let (image, weight) = (8 * 3 * 224 * 224, 64 * 3 * 7 * 7);
        let expected = known(flops, 4 * (image + weight + output));
        assert_eq!(work_of("mkldnn_convolution", &inputs, &lists), expected);
        let lists = json!({ "2": [3, 3], "3": [2, 2], "4": [1, 1] });
        assert_eq!(work_of("cudnn_convolution", &inputs[..2], &lists), expected);

        // Its backward pass computes the gradient of the weight alone.
        let backward = ["float32 8 64 112 112", "float32 8 3 224 224", "float32 64 3 7 7"];
        let lists = json!({ "4": [2, 2], "5": [3, 3], "6": [1, 1], "8": [0, 0], "10": [false, true, false] });
        let expected = known(flops, 4 * (output + image + weight));
        assert_eq!(work_of("convolution_backward", &backward, &lists), expected);
    }

    #[test]
    fn each_gradient_costs_as_much_as_forward() {
        let inputs = ["bfloat16 2 8 5 5", "bfloat16 2 4 5 5", "bfloat16 8 4 3 3"];
        let macs = 2 * 8 * 5 * 5 * 4 * 3 * 3;
        let (gradient, input, weight) = (2 * 8 * 25, 2 * 4 * 25, 8 * 4 * 9);
        let of = |mask: [bool; 3]| {
            let lists = json!({ "4": [1, 1], "5": [1, 1], "6": [1, 1], "7": false, "8": [0, 0], "10": mask });
            work_of("convolution_backward", &inputs, &lists)
        };
        assert_eq!(of([true, false, false]), known(2 * macs, 2 * (gradient + weight + input)));
        assert_eq!(of([true, true, false]), known(4 * macs, 2 * (gradient + 2 * weight + 2 * input)));
        assert_eq!(of([true, true, true]), known(4 * macs, 2 * (gradient + 2 * weight + 2 * input + 8)));
        let in_reverse = [inputs[1], inputs[0], inputs[2]];
        let lists = json!({ "3": [1, 1], "4": [1, 1], "5": [1, 1], "7": [true, true, false] });
        assert_eq!(work_of("mps_convolution_backward", &in_reverse, &lists), of([true, true, false]));
    }

    #[test]
    fn depthwise_and_one_dimensional_convolutions() {
        let lists = json!({ "3": [1], "4": [1], "5": [1] });
        let depthwise = work_of("mkldnn_convolution", &["float32 1 6 10 10", "float32 6 1 3 3", "-"], &lists);
        assert_eq!(depthwise.flops, Some(2 * 6 * 100 * 9));
        let line = work_of("mkldnn_convolution", &["float32 1 6 10", "float32 4 6 3", "-"], &lists);
        assert_eq!(line.flops, Some(2 * 4 * 10 * 6 * 3));
    }

    #[test]
    fn a_transposed_convolution_multiplies_for_each_element_of_its_input() {
        let inputs = ["float32 1 4 5 5", "float32 4 3 2 2", "float32 6"];
        // Two groups of 3 output channels; each pixel becomes 2 × 2.
        let arguments = json!({ "3": [2, 2], "4": [0, 0], "5": [1, 1], "6": true, "7": [0, 0], "8": 2 });
        let macs = 4 * 25 * 3 * 4;
        let moved = 4 * 25 + 4 * 3 * 4 + 6 + 6 * 100;
        let expected = known(2 * macs, 4 * moved);
        assert_eq!(work_of("convolution_overrideable", &inputs, &arguments), expected);
        let arguments = json!({ "2": [0, 0], "3": [0, 0], "4": [2, 2], "5": [1, 1] });
        let without_groups = work_of("cudnn_convolution_transpose", &inputs[..2], &arguments);
        assert_eq!(without_groups, Work { flops: expected.flops, bytes: None });
    }

    #[test]
    fn the_sizes_of_a_gradient_show_whether_its_convolution_is_transposed() {
        let flops = |gradient: &str, input: &str, weight: &str, stride: u64, padding: u64| {
            let lists = json!({ "4": [stride, stride], "5": [padding, padding], "6": [1, 1], "8": [0, 0],
                                "10": [true, false, false] });
            work_of("convolution_backward", &[gradient, input, weight], &lists).flops
        };
        let (small, large, weight) = ("float32 1 4 5 5", "float32 1 4 10 10", "float32 4 4 2 2");
        assert_eq!(flops(small, large, weight, 2, 0), Some(2 * 4 * 25 * 4 * 4));
        assert_eq!(flops(large, small, weight, 2, 0), Some(2 * 4 * 25 * 4 * 4), "transposed");
        // It could be both, and both cost the same.
        assert_eq!(flops(small, small, "float32 4 4 3 3", 1, 1), Some(2 * 4 * 25 * 4 * 9));
        assert_eq!(flops("float32 1 4 7 7", small, "float32 4 4 2 2", 2, 0), None, "no direction fits");
    }

    /// Multiply-accumulates by a loop over each element of the output and of the window, as a convolution is defined.
    fn counted(input: [u64; 4], weight: [u64; 4], window: Window) -> (u64, u64) {
        let along = |size: u64, kernel: u64| {
            let span = (kernel - 1) * window.dilation + 1;
            (0..size + 2 * window.padding)
                .step_by(usize::try_from(window.stride).unwrap())
                .filter(|start| start + span <= size + 2 * window.padding)
                .count() as u64
        };
        let (mut output, mut macs) = (0, 0);
        for _ in 0..input[0] * weight[0] {
            for _ in 0..along(input[2], weight[2]) * along(input[3], weight[3]) {
                output += 1;
                for _ in 0..weight[1] * weight[2] * weight[3] {
                    macs += 1;
                }
            }
        }
        (output, macs)
    }

    proptest! {
        #[test]
        fn work_equals_the_count_of_a_loop_nest(
            batch in 1..3u64, groups in 1..4u64, per_group in 1..3u64, filters in 1..3u64, size in [4..9u64, 4..9u64],
            kernel in [1..4u64, 1..4u64], stride in 1..3u64, padding in 0..2u64, dilation in 1..3u64,
        ) {
            let input = [batch, groups * per_group, size[0], size[1]];
            let weight = [groups * filters, per_group, kernel[0], kernel[1]];
            let (output, macs) = counted(input, weight, Window { kernel: 0, stride, padding, dilation });
            prop_assume!(output > 0);
            let text = |sizes: [u64; 4]| format!("float32 {} {} {} {}", sizes[0], sizes[1], sizes[2], sizes[3]);
            let lists = json!({ "2": [padding, padding], "3": [stride, stride], "4": [dilation, dilation] });
            let work = work_of("cudnn_convolution", &[&text(input), &text(weight)], &lists);
            let tensors = input.iter().product::<u64>() + weight.iter().product::<u64>() + output;
            prop_assert_eq!(work, known(2 * macs, 4 * tensors));
        }
    }
}
