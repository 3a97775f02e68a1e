//! Names of CUDA's kernels that say what they compute, for kernels without an operator.

use orchestrate::protocol::OperatorClass;

/// Parts of names, and the class of the kernels that have them. The first one that fits decides. They are names of
/// templates in ATen (`aten/src/ATen/native/cuda`), and of cuDNN's kernels. A matrix product of cuBLAS or CUTLASS is
/// not here: cuDNN computes convolutions with the same kernels.
const PARTS: [(&str, OperatorClass); 24] = [
    ("Memcpy", OperatorClass::Copy),
    ("Memset", OperatorClass::Copy),
    ("direct_copy_kernel", OperatorClass::Copy),
    ("CatArrayBatchedCopy", OperatorClass::Copy),
    ("nchwToNhwc", OperatorClass::Copy),
    ("nhwcToNchw", OperatorClass::Copy),
    ("multi_tensor_apply", OperatorClass::Optimizer),
    ("fprop", OperatorClass::Convolution),
    ("dgrad", OperatorClass::Convolution),
    ("wgrad", OperatorClass::Convolution),
    ("convolve", OperatorClass::Convolution),
    ("winograd", OperatorClass::Convolution),
    ("conv_depthwise", OperatorClass::Convolution),
    ("flash_", OperatorClass::Attention),
    ("fmha", OperatorClass::Attention),
    ("batch_norm", OperatorClass::Normalisation),
    ("bn_fw_", OperatorClass::Normalisation),
    ("bn_bw_", OperatorClass::Normalisation),
    ("layer_norm", OperatorClass::Normalisation),
    ("max_pool", OperatorClass::Pooling),
    ("avg_pool", OperatorClass::Pooling),
    ("softmax", OperatorClass::Lookup),
    ("nll_loss", OperatorClass::Lookup),
    ("elementwise_kernel", OperatorClass::Elementwise),
];

/// The class of the kernel called `name`; [`OperatorClass::Other`] if it is uncertain.
pub(super) fn class(name: &str) -> OperatorClass {
    let fits = |part: &str| name.contains(part);
    PARTS.iter().find(|(part, _)| fits(part)).map_or(OperatorClass::Other, |(_, class)| *class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_the_class_that_their_names_prove() {
        for (name, expected) in [
            ("Memcpy HtoD (Pinned -> Device)", OperatorClass::Copy),
            (
                "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<at::native::\
                 direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}>>",
                OperatorClass::Copy,
            ),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
                OperatorClass::Elementwise,
            ),
            ("sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc", OperatorClass::Convolution),
            ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512>", OperatorClass::Normalisation),
            (
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedSgdMathFunctor>",
                OperatorClass::Optimizer,
            ),
            ("ampere_sgemm_128x64_tn", OperatorClass::Other),
        ] {
            assert_eq!(class(name), expected, "{name}");
        }
    }
}
