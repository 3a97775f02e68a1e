//! Operators that do their work on one device, and on another leave it to operators that they call.

use std::collections::{HashMap, HashSet};

use crate::protocol::OperatorSample;

use super::count::elements;

/// The operators to which an operator may leave its work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callees {
    /// Their names.
    pub(super) names: &'static [&'static str],
    /// So many of the operator's first tensors are also inputs of the callee, perhaps in other shapes. A callee with
    /// other inputs was called by another operator. With 0, nothing else calls it.
    pub(super) shared: usize,
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
        let got_all = |call: &HashSet<u64>| inputs.iter().all(|size| call.contains(size));
        let mut calls = callees.names.iter().filter_map(|name| self.0.get(name)).flatten();
        calls.any(got_all)
    }
}

/// Elements of each tensor of `operator`.
fn sizes(operator: &OperatorSample) -> impl Iterator<Item = u64> {
    operator.shapes.iter().flatten().filter_map(|sizes| elements(sizes))
}

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
        assert_eq!(work(&linear), Work::NOTHING);
    }

    #[test]
    fn a_backward_pass_leaves_its_work_to_the_convolution_of_its_device() {
        let mask = vec![json!(null), json!(null), json!(null), json!([8]), json!([1, 1]), json!([0, 0])];
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
