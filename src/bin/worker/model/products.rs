//! The implementations of bfloat16 products on a processor.

/// The implementation of bfloat16 products in the linear layers and convolutions of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Products {
    /// oneDNN: on x86-64 with AVX-512, on Arm with instructions for bfloat16.
    Onednn,
    /// libtorch's own kernels.
    Libtorch,
    /// libtorch's kernels for single precision, in which products of bfloat16 are exact. The results are rounded to it.
    Single,
}

impl Products {
    /// The fastest that can train, given whether oneDNN has bfloat16 on this processor and, on x86-64, whether that
    /// has AVX-512.
    ///
    /// On x86-64 without AVX-512, single precision was measured as 4 to 30 times as fast as libtorch's own kernels.
    /// Some such processors have a few instructions for bfloat16. For these, oneDNN has no backward pass of a
    /// convolution (<https://github.com/pytorch/pytorch/issues/148861>). libtorch's kernels for
    /// Arm were not measured.
    pub(crate) fn best(onednn_has_it: bool, avx512: Option<bool>) -> Self {
        match (onednn_has_it, avx512) {
            (true, None | Some(true)) => Products::Onednn,
            (_, Some(_)) => Products::Single,
            (false, None) => Products::Libtorch,
        }
    }

    /// Its name in the measurement.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Products::Onednn => "onednn",
            Products::Libtorch => "libtorch",
            Products::Single => "single",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn onednn_comes_first_where_it_can_train() {
        for (onednn, avx512, best) in [
            (true, Some(true), "onednn"),
            (true, Some(false), "single"),
            // Such as with ONEDNN_MAX_CPU_ISA=AVX2.
            (false, Some(true), "single"),
            (false, Some(false), "single"),
            (true, None, "onednn"),
            (false, None, "libtorch"),
        ] {
            assert_eq!(Products::best(onednn, avx512).as_str(), best, "{onednn} {avx512:?}");
        }
    }
}
