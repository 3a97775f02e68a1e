//! Operators that neither compute nor move data themselves. Their inputs would only make a profile longer: there are
//! as many of them as of all others.

/// Allocations, views, and operators that only call another one, which has the same inputs.
const NAMES: [&str; 24] = [
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::resize_",
    "aten::as_strided",
    "aten::as_strided_",
    "aten::view",
    "aten::_unsafe_view",
    "aten::_reshape_alias",
    "aten::expand",
    "aten::permute",
    "aten::transpose",
    "aten::t",
    "aten::select",
    "aten::unbind",
    "aten::flatten",
    "aten::detach",
    "detach",
    "aten::resolve_conj",
    "aten::reshape",
    "aten::contiguous",
    "aten::clone",
    "aten::to",
    "aten::_to_copy",
];

/// Whether the operator called `name` is bookkeeping. The same is true of the nodes of autograd, such as
/// `ConvolutionBackward0`: the operators that they call have the inputs.
pub(super) fn is_bookkeeping(name: &str) -> bool {
    NAMES.contains(&name) || is_node(name)
}

fn is_node(name: &str) -> bool {
    let without_number = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    name.contains("autograd::") || (!name.contains("::") && without_number.ends_with("Backward"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_that_compute_or_copy_keep_their_inputs() {
        for name in ["ConvolutionBackward0", "SumBackward1", "torch::autograd::AccumulateGrad", "aten::t"] {
            assert!(is_bookkeeping(name), "{name}");
        }
        let work = [
            "aten::convolution_backward",
            "aten::copy_",
            "aten::fill_",
            "aten::threshold_backward",
            "aten::cat",
        ];
        for name in work {
            assert!(!is_bookkeeping(name), "{name}");
        }
    }
}
