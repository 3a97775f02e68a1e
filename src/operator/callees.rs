//! Operators that do their work on one device, and leave it to operators that they call on another.

use std::collections::{HashMap, HashSet};

use crate::protocol::OperatorSample;

use super::count::elements;

/// The operators to which an operator may leave its work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callees {
    /// Their names.
    pub(super) names: &'static [&'static str],
    /// The number of the operator's first tensors that are also inputs of the callee, perhaps in other shapes. A callee
    /// with other inputs was called by another operator. With 0, only this operator calls it.
    pub(super) shared: usize,
    /// Whether the operator may call them once for each group of channels, with a part of each of these tensors.
    pub(super) in_groups: bool,
    /// Whether PyTorch calls them on processors and on CUDA.
    pub(super) are_usual: bool,
}

/// The operators of a profile that others may have called: by name, the elements of the tensors of each call.
pub(super) struct Called<'a>(HashMap<&'a str, Vec<HashSet<u64>>>);

impl<'a> Called<'a> {
    pub(super) fn of(operators: &'a [OperatorSample]) -> Self {
        let mut called: HashMap<&str, Vec<HashSet<u64>>> = HashMap::new();
        for operator in operators {
            called.entry(&operator.name).or_default().push(sizes(operator).collect());
        }
        Called(called)
    }

    /// Whether one of `callees` got the inputs of `operator`.
    pub(super) fn does_work_of(&self, operator: &OperatorSample, callees: Callees) -> bool {
        let inputs: Vec<u64> = sizes(operator).take(callees.shared).collect();
        let got_inputs =
            |call| if callees.in_groups { got_a_group(call, &inputs) } else { got(call, &inputs, 1) };
        let mut calls = callees.names.iter().filter_map(|name| self.0.get(name)).flatten();
        calls.any(got_inputs)
    }
}

/// Whether a call with tensors of `sizes` got one of so many `groups` of each of `inputs`.
fn got(sizes: &HashSet<u64>, inputs: &[u64], groups: u64) -> bool {
    inputs.iter().all(|input| input % groups == 0 && sizes.contains(&(input / groups)))
}

/// Whether it got one of any number of groups.
fn got_a_group(sizes: &HashSet<u64>, inputs: &[u64]) -> bool {
    let Some(first) = inputs.first() else { return true };
    let groups = sizes.iter().filter_map(|size| first.checked_div(*size)).filter(|groups| *groups > 0);
    groups.into_iter().any(|groups| got(sizes, inputs, groups))
}

/// Elements of each tensor of `operator`.
fn sizes(operator: &OperatorSample) -> impl Iterator<Item = u64> {
    operator.shapes.iter().flatten().filter_map(|sizes| elements(sizes))
}

/// Callees that get all of the operator's first `shared` tensors.
const fn callees(names: &'static [&'static str], shared: usize, are_usual: bool) -> Callees {
    Callees { names, shared, in_groups: false, are_usual }
}

/// The operators that compute convolutions.
const CONVOLUTIONS: &[&str] = &[
    "aten::cudnn_convolution",
    "aten::cudnn_convolution_transpose",
    "aten::mkldnn_convolution",
    "aten::miopen_convolution",
    "aten::miopen_convolution_transpose",
    "aten::miopen_depthwise_convolution",
    "aten::_mps_convolution",
    "aten::_mps_convolution_transpose",
    "aten::convolution_overrideable",
    "aten::_nnpack_spatial_convolution",
    "aten::_slow_conv2d_forward",
    "aten::slow_conv3d_forward",
    "aten::_conv_depthwise2d",
    "aten::conv_depthwise3d",
    "aten::slow_conv_dilated2d",
    "aten::slow_conv_dilated3d",
    "aten::slow_conv_transpose2d",
    "aten::slow_conv_transpose3d",
];

/// The operators that compute their gradients.
const BACKWARD_CONVOLUTIONS: &[&str] = &[
    "aten::_slow_conv2d_backward",
    "aten::convolution_backward_overrideable",
    "aten::mps_convolution_backward",
    "aten::mps_convolution_transpose_backward",
];

/// Operators of the table that leave their work to others on some devices.
pub(super) const CALLEES: &[(&str, Callees)] = &[
    // oneDNN's transposed convolution is called without an operator.
    ("_convolution", Callees { names: CONVOLUTIONS, shared: 2, in_groups: true, are_usual: true }),
    // oneDNN, cuDNN and MIOpen are called without an operator.
    (
        "convolution_backward",
        Callees { names: BACKWARD_CONVOLUTIONS, shared: 3, in_groups: true, are_usual: false },
    ),
    // MPS computes it without a callee.
    ("linear", callees(&["aten::addmm", "aten::mm", "aten::mkldnn_linear"], 2, true)),
    // On CUDA. Only these operators call them.
    ("_scaled_dot_product_flash_attention", callees(&["aten::_flash_attention_forward"], 0, true)),
    ("_scaled_dot_product_flash_attention_backward", callees(&["aten::_flash_attention_backward"], 0, true)),
    ("_scaled_dot_product_efficient_attention", callees(&["aten::_efficient_attention_forward"], 0, true)),
    (
        "_scaled_dot_product_efficient_attention_backward",
        callees(&["aten::_efficient_attention_backward"], 0, true),
    ),
    ("_scaled_dot_product_cudnn_attention", callees(&["aten::_cudnn_attention_forward"], 0, true)),
    ("_scaled_dot_product_cudnn_attention_backward", callees(&["aten::_cudnn_attention_backward"], 0, true)),
    // On MPS.
    ("native_group_norm", callees(&["aten::native_batch_norm"], 1, false)),
    ("relu", callees(&["aten::clamp_min", "aten::clamp_min_"], 1, true)),
    ("zero_", callees(&["aten::fill_"], 1, true)),
    // On processors, a mean is a sum that is divided in place.
    ("mean", callees(&["aten::sum"], 1, false)),
    ("native_dropout", callees(&["aten::bernoulli_"], 1, false)),
];

#[cfg(test)]
mod tests {
    use super::super::testing::{sample, with_arguments};
    use super::super::{Work, work, works};
    use super::*;
    use serde_json::json;

    fn flops(operators: &[OperatorSample]) -> Vec<Option<u64>> {
        works(operators).into_iter().map(|work| work.flops).collect()
    }

    #[test]
    fn a_linear_layer_leaves_its_work_to_a_product_or_does_it() {
        let linear = sample("aten::linear", &["float32 2 7 3", "float32 5 3", "float32 5"]);
        let product = sample("aten::addmm", &["float32 5", "float32 14 3", "float32 3 5"]);
        let of_another_layer = sample("aten::addmm", &["float32 5", "float32 2 3", "float32 3 5"]);
        assert_eq!(flops(&[linear.clone(), product]), [Some(0), Some(420)]);
        // On Apple's GPUs, the layer is one operator.
        assert_eq!(flops(&[linear.clone(), of_another_layer]), [Some(420), Some(60)]);
        assert_eq!(work(&linear), Work::ZERO);
    }

    #[test]
    fn a_backward_pass_leaves_its_work_to_the_convolution_of_its_device() {
        let mask = [json!(null), json!(null), json!(null), json!([8]), json!([1, 1]), json!([0, 0])];
        let tensors = ["float64 2 8 6 6", "float64 2 3 8 8", "float64 8 3 3 3"];
        let of = |name: &str, more: &[serde_json::Value]| {
            with_arguments(sample(name, &tensors), mask.iter().chain(more).cloned().collect())
        };
        let more = [json!([1, 1]), json!(false), json!([0, 0]), json!(1), json!([false, true, true])];
        let backward = of("aten::convolution_backward", &more);
        let mut slow = of("aten::_slow_conv2d_backward", &[json!([false, true, true])]);
        slow.arguments[3] = json!([3, 3]);
        let macs = 2 * 8 * 36 * 27;
        assert_eq!(flops(&[backward.clone(), slow]), [Some(0), Some(2 * macs)]);
        assert_eq!(work(&backward).flops, Some(2 * macs), "oneDNN and cuDNN are called without an operator");
    }

    #[test]
    fn a_convolution_in_groups_leaves_each_to_a_call() {
        let inputs = ["float64 2 8 8 8", "float64 8 2 3 3", "float64 8"];
        let group = ["float64 2 2 8 8", "float64 2 2 3 3", "-", "float64 2"];
        let arguments = [json!(null), json!(null), json!(null), json!([1, 1]), json!([1, 1]), json!([1, 1])];
        let flags = [json!(false), json!([0, 0]), json!(4)];
        let whole = with_arguments(
            sample("aten::_convolution", &inputs),
            arguments.iter().chain(&flags).cloned().collect(),
        );
        let lists = vec![json!(null), json!(null), json!([3, 3]), json!(null), json!([1, 1]), json!([1, 1])];
        let part = with_arguments(sample("aten::_slow_conv2d_forward", &group), lists);
        let macs = 2 * 8 * 64 * 2 * 9;
        assert_eq!(flops(&[whole.clone(), part]), [Some(0), Some(2 * macs / 4)]);
        // oneDNN's transposed convolution is called without an operator.
        assert_eq!(flops(&[whole]), [Some(2 * macs)]);
    }

    #[test]
    fn a_mean_is_a_sum_on_processors() {
        let tensors = ["float32 8 512 7 7", "-", "-", "-"];
        let of = |name: &str| {
            with_arguments(
                sample(name, &tensors),
                vec![json!(null), json!([-1, -2]), json!(true), json!(null)],
            )
        };
        let bytes = Some(4 * (8 * 512 * 49 + 8 * 512));
        let (mean, sum) = (of("aten::mean"), of("aten::sum"));
        assert_eq!(work(&mean).bytes, bytes);
        let both: Vec<Option<u64>> = works(&[mean, sum]).into_iter().map(|work| work.bytes).collect();
        assert_eq!(both, [Some(0), bytes]);
    }

    #[test]
    fn attention_is_counted_where_its_kernel_is() {
        let heads_first = ["float16 2 3 5 8", "float16 2 3 5 8", "float16 2 3 5 8"];
        let lengths_first = ["float16 2 5 3 8", "float16 2 5 3 8", "float16 2 5 3 8"];
        let flags = |place: usize| {
            let mut flags = vec![json!(null); place];
            flags.push(json!(false));
            flags
        };
        let outer = sample("aten::_scaled_dot_product_flash_attention", &heads_first);
        let inner = sample("aten::_flash_attention_forward", &lengths_first);
        let outer = with_arguments(outer, flags(4));
        let expected = Some(2 * 2 * 3 * 25 * 16);
        assert_eq!(flops(&[outer, with_arguments(inner, flags(8))]), [Some(0), expected]);
    }
}
