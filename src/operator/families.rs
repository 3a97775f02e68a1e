//! Names that follow a pattern, and are not in the table.

use crate::protocol::OperatorClass;

use super::entry::Entry;
use super::inputs::Inputs;
use super::rule::{no_work, unknown};
use super::work::Work;
use OperatorClass::{
    Attention, Communication, Convolution, Copy, Data, Elementwise, Lookup, Normalisation, Optimizer, Other,
    Pooling, Product,
};

/// The entry of the operator called `name` by the pattern of its name.
pub(super) fn entry(name: &str) -> Entry {
    host(name)
        .or_else(|| foreach(name))
        .or_else(|| compiled(name))
        .or_else(|| communication(name))
        .or_else(|| kernel(name))
        .unwrap_or(Entry::new(Other, unknown))
}

/// The work of an operator without matrix products, whose bytes the inputs do not determine.
fn no_products(_: &Inputs<'_>) -> Work {
    Work { flops: Some(0), bytes: None }
}

/// Prefixes of the names of entries that only call operators or wait for them: nodes of autograd, scopes of PyTorch's
/// profiler, and calls of CUDA's runtime.
const ON_THE_HOST: [(&str, OperatorClass); 14] = [
    ("autograd::engine::", Other),
    ("torch::autograd::", Other),
    ("enumerate(DataLoader)#", Data),
    ("Optimizer.step#", Optimizer),
    ("Optimizer.zero_grad#", Optimizer),
    ("ProfilerStep", Other),
    ("DistributedDataParallel.", Other),
    ("Torch-Compiled Region", Other),
    ("CompiledFunction", Other),
    ("## Call CompiledFxGraph", Other),
    ("TorchDynamo", Other),
    ("AOTDispatcher", Other),
    ("cuda", Other),
    ("cuLaunch", Other),
];

fn host(name: &str) -> Option<Entry> {
    if is_node(name) {
        return Some(Entry::new(Other, no_work));
    }
    let found = ON_THE_HOST.iter().find(|(start, _)| name.starts_with(start));
    // `cuda` begins functions of CUDA's runtime such as `cudaLaunchKernel`, but no kernel's signature.
    found
        .filter(|_| !name.contains('(') || name.starts_with("enumerate"))
        .map(|(_, class)| Entry::new(*class, no_work))
}

/// Whether it is a node of autograd such as `ConvolutionBackward0`.
fn is_node(name: &str) -> bool {
    let without_number = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    without_number.len() < name.len() && !name.contains("::") && without_number.ends_with("Backward")
}

/// `aten::_foreach_…` works on all tensors of an optimizer, and takes them as lists, which have no shapes.
fn foreach(name: &str) -> Option<Entry> {
    name.starts_with("aten::_foreach_").then_some(Entry::new(Optimizer, no_products))
}

/// The parts of names of kernels that `torch.compile` generates. They list the operators that were fused. The first one
/// that fits decides.
const FUSED: [(&str, OperatorClass); 9] = [
    ("_norm", Normalisation),
    ("var_mean", Normalisation),
    ("rsqrt", Normalisation),
    ("softmax", Lookup),
    ("nll_loss", Lookup),
    ("embedding", Lookup),
    ("gather", Lookup),
    ("pool", Pooling),
    ("", Elementwise),
];

/// `triton_poi_…` is arithmetic on elements, `triton_red_…` and `triton_per_…` contain sums, `triton_tem_…` is a
/// template: a product, a convolution or attention.
fn compiled(name: &str) -> Option<Entry> {
    let name = name.strip_prefix("triton_").or_else(|| name.strip_prefix("cpp_fused").map(|_| name))?;
    if let Some(template) = name.strip_prefix("tem_") {
        let class = if template.contains("convolution") {
            Convolution
        } else if template.contains("attention") {
            Attention
        } else {
            Product
        };
        return Some(Entry::new(class, unknown));
    }
    let (_, class) = FUSED.iter().find(|(part, _)| name.contains(part))?;
    Some(Entry::new(*class, no_products))
}

/// The beginnings of names of collectives.
const COLLECTIVES: [&str; 8] =
    ["nccl:", "ncclDevKernel", "ncclKernel", "gloo:", "mpi:", "ucc:", "c10d::", "_c10d_functional::"];

fn communication(name: &str) -> Option<Entry> {
    let is_collective = COLLECTIVES.iter().any(|start| name.starts_with(start));
    (is_collective || name == "record_param_comms").then_some(Entry::new(Communication, no_products))
}

/// Parts of names of CUDA's kernels and copies. The first one that fits decides. They are names of templates in ATen
/// (`aten/src/ATen/native/cuda`), of cuDNN's kernels, and CUPTI's names of copies. A matrix product of cuBLAS or
/// CUTLASS is not here: cuDNN computes convolutions with the same kernels.
const KERNELS: [(&str, OperatorClass); 26] = [
    ("Memcpy", Copy),
    ("Memset", Copy),
    ("direct_copy_kernel", Copy),
    ("CatArrayBatchedCopy", Copy),
    ("nchwToNhwc", Copy),
    ("nhwcToNchw", Copy),
    ("multi_tensor_apply", Optimizer),
    ("fprop", Convolution),
    ("dgrad", Convolution),
    ("wgrad", Convolution),
    ("convolve", Convolution),
    ("winograd", Convolution),
    ("conv_depthwise", Convolution),
    ("flash_", Attention),
    ("fmha", Attention),
    ("batch_norm", Normalisation),
    ("bn_fw_", Normalisation),
    ("bn_bw_", Normalisation),
    ("layer_norm", Normalisation),
    ("max_pool", Pooling),
    ("avg_pool", Pooling),
    ("softmax", Lookup),
    ("nll_loss", Lookup),
    ("embedding", Lookup),
    ("elementwise_kernel", Elementwise),
    ("reduce_kernel", Elementwise),
];

fn kernel(name: &str) -> Option<Entry> {
    // An operator whose name contains that of a kernel can do anything.
    let is_operator = name.starts_with("aten::");
    let (_, class) = KERNELS.iter().find(|(part, _)| !is_operator && name.contains(part))?;
    let multiplies = matches!(class, Convolution | Attention);
    Some(Entry::new(*class, if multiplies { unknown } else { no_products }))
}

#[cfg(test)]
mod tests {
    use super::super::testing::sample;
    use super::super::{class, work};
    use super::*;

    fn known(flops: Option<u64>, bytes: Option<u64>) -> Work {
        Work { flops, bytes }
    }

    #[test]
    fn callers_of_operators_have_no_work() {
        for (name, expected) in [
            ("ConvolutionBackward0", Other),
            ("autograd::engine::evaluate_function: MulBackward0", Other),
            ("torch::autograd::AccumulateGrad", Other),
            ("Optimizer.step#SGD.step", Optimizer),
            ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Data),
            ("cudaLaunchKernel", Other),
            ("Torch-Compiled Region: 0/0", Other),
        ] {
            let operator = sample(name, &["float32 2"]);
            assert_eq!((class(&operator), work(&operator)), (expected, Work::ZERO), "{name}");
        }
    }

    #[test]
    fn kernels_and_collectives_have_the_class_that_their_names_prove() {
        let (zero, open) = (known(Some(0), None), Work::UNKNOWN);
        for (name, expected, of_work) in [
            ("aten::_foreach_addcdiv_", Optimizer, zero),
            ("triton_poi_fused_add_relu_3", Elementwise, zero),
            ("triton_red_fused__native_batch_norm_legit_functional_7", Normalisation, zero),
            ("triton_per_fused__log_softmax_nll_loss_forward_1", Lookup, zero),
            ("triton_tem_fused_addmm_2", Product, open),
            ("triton_tem_fused_convolution_2", Convolution, open),
            ("nccl:all_reduce", Communication, zero),
            (
                "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                Communication,
                zero,
            ),
            ("c10d::allreduce_", Communication, zero),
            ("record_param_comms", Communication, zero),
            ("Memcpy HtoD (Pinned -> Device)", Copy, zero),
            ("Memset (Device)", Copy, zero),
            ("sm80_xmma_dgrad_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc", Convolution, open),
            ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512>", Normalisation, zero),
            (
                "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
                Elementwise,
                zero,
            ),
            (
                "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedSgdMathFunctor>",
                Optimizer,
                zero,
            ),
            ("ampere_sgemm_128x64_tn", Other, open),
        ] {
            let operator = sample(name, &[]);
            assert_eq!((class(&operator), work(&operator)), (expected, of_work), "{name}");
        }
    }
}
