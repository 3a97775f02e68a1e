//! The compulsory bytes of operators that take lists of tensors, whose shapes a profile does not have.

/// The least bytes that one call of the operator called `name` reads and writes, given the bytes of the tensors in each
/// of its lists. `None` if it is not known here.
///
/// The lists are those of `native_functions.yaml`: the weights come first, then their gradients, then what the
/// optimizer remembers. Weights and memory are read and written, gradients are read.
pub(super) fn bytes(name: &str, lists: &[u64]) -> Option<u64> {
    match (name, lists) {
        ("aten::cat" | "aten::stack", [inputs]) => Some(2 * inputs),
        ("aten::_amp_foreach_non_finite_check_and_unscale_", [gradients]) => Some(2 * gradients),
        ("aten::_fused_sgd_", [weights, gradients, momenta]) => Some(2 * (weights + momenta) + gradients),
        ("aten::_fused_adamw_", [weights, gradients, first, second, largest, steps]) => {
            Some(2 * (weights + first + second + largest) + gradients + steps)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tensor_is_read_once_and_written_once_if_it_changes() {
        assert_eq!(bytes("aten::cat", &[100]), Some(200));
        // PyTorch's SGD with momentum: three reads and two writes for each weight of 4 bytes.
        assert_eq!(bytes("aten::_fused_sgd_", &[4, 4, 4]), Some(20));
        assert_eq!(bytes("aten::_fused_adamw_", &[4, 4, 4, 4, 0, 0]), Some(28));
    }

    #[test]
    fn unknown_operators_have_no_bytes() {
        assert_eq!(bytes("aten::_foreach_add_", &[4, 4]), None);
        assert_eq!(bytes("aten::_fused_sgd_", &[4, 4]), None);
        assert_eq!(bytes("aten::mm", &[]), None);
    }
}
