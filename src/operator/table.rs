//! PyTorch's operators by name: the class and the rule of each.
//!
//! A name is without `aten::`, and without the `_` at the end of its variant in place.

use crate::protocol::OperatorClass;

use super::elementwise::{compare, copy, dropout, fill, map, norm, reduce, reduce_twice, sum};
use super::lookup::gather;
use super::rule::Rule::{self, Attend, AttendBack, Convolve, ConvolveBack, Of};
use super::rule::{no_work, unknown};
use super::{attention, convolution, lookup, normalisation, pooling, product};
use OperatorClass::{
    Attention, Convolution, Copy, Elementwise, Lookup, Normalisation, Optimizer, Other, Pooling, Product,
};

/// Operators of one class with one rule.
pub(super) type Row = (OperatorClass, Rule, &'static str);

/// The table. A name is in one row.
pub(super) const ROWS: &[Row] = &[
    // ---- Convolutions ----------------------------------------------------------------------------------------------
    (
        Convolution,
        Of(no_work),
        "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution \
         _convolution_mode thnn_conv2d slow_conv3d",
    ),
    (Convolution, Convolve(&convolution::CUDNN), "cudnn_convolution"),
    (
        Convolution,
        Convolve(&convolution::CUDNN_TRANSPOSED),
        "cudnn_convolution_transpose _mps_convolution_transpose",
    ),
    (Convolution, Convolve(&convolution::CUDNN_RELU), "cudnn_convolution_relu miopen_convolution_relu"),
    (
        Convolution,
        Convolve(&convolution::CUDNN_ADD_RELU),
        "cudnn_convolution_add_relu miopen_convolution_add_relu",
    ),
    (
        Convolution,
        Convolve(&convolution::ONEDNN),
        "mkldnn_convolution mkldnn::_convolution_pointwise miopen_convolution \
         miopen_depthwise_convolution _mps_convolution",
    ),
    (Convolution, Convolve(&convolution::MIOPEN_TRANSPOSED), "miopen_convolution_transpose"),
    (Convolution, Convolve(&convolution::OVERRIDEABLE), "convolution_overrideable _convolution"),
    (Convolution, Convolve(&convolution::NNPACK), "_nnpack_spatial_convolution"),
    (Convolution, Convolve(&convolution::SLOW), "_slow_conv2d_forward slow_conv3d_forward"),
    (
        Convolution,
        Convolve(&convolution::DILATED),
        "_conv_depthwise2d conv_depthwise3d slow_conv_dilated2d slow_conv_dilated3d",
    ),
    (Convolution, Convolve(&convolution::SLOW_TRANSPOSED), "slow_conv_transpose2d slow_conv_transpose3d"),
    (Convolution, ConvolveBack(&convolution::BACKWARD), "convolution_backward"),
    (Convolution, ConvolveBack(&convolution::OVERRIDEABLE_BACKWARD), "convolution_backward_overrideable"),
    (Convolution, ConvolveBack(&convolution::SLOW_BACKWARD), "_slow_conv2d_backward"),
    (Convolution, ConvolveBack(&convolution::MPS_BACKWARD), "mps_convolution_backward"),
    (Convolution, ConvolveBack(&convolution::MPS_TRANSPOSED_BACKWARD), "mps_convolution_transpose_backward"),
    // ---- Matrix products -------------------------------------------------------------------------------------------
    (
        Product,
        Of(no_work),
        "matmul mv vdot einsum tensordot inner bilinear _trilinear chain_matmul linalg_multi_dot \
         mkldnn_linear_backward lstm gru rnn_tanh rnn_relu lstm_cell gru_cell",
    ),
    (Product, Of(product::matrices::<0>), "mm bmm dot"),
    (Product, Of(product::matrices::<1>), "addmm baddbmm addmv _addmm_activation"),
    (Product, Of(product::scaled), "_scaled_mm _int_mm"),
    (Product, Of(product::linear), "linear mkldnn_linear mkldnn::_linear_pointwise"),
    (Product, Of(product::linear_backward), "linear_backward"),
    (Product, Of(product::linear_backward_input), "mkldnn_linear_backward_input"),
    (Product, Of(product::linear_backward_weights), "mkldnn_linear_backward_weights"),
    (
        Product,
        Of(unknown),
        "addbmm addr _grouped_mm _scaled_grouped_mm _cudnn_rnn _cudnn_rnn_backward miopen_rnn \
         miopen_rnn_backward mkldnn_rnn_layer mkldnn_rnn_layer_backward _lstm_mps lstm_mps_backward",
    ),
    // ---- Attention -------------------------------------------------------------------------------------------------
    (
        Attention,
        Of(no_work),
        "scaled_dot_product_attention _scaled_dot_product_attention_math _native_multi_head_attention",
    ),
    (Attention, Attend(&attention::FLASH), "_scaled_dot_product_flash_attention"),
    (Attention, Attend(&attention::FLASH_CPU), "_scaled_dot_product_flash_attention_for_cpu"),
    (
        Attention,
        Attend(&attention::EFFICIENT),
        "_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention",
    ),
    (
        Attention,
        Attend(&attention::OVERRIDEABLE),
        "_scaled_dot_product_fused_attention_overrideable _scaled_dot_product_attention_math_for_mps",
    ),
    (Attention, Attend(&attention::FLASH_FORWARD), "_flash_attention_forward"),
    (Attention, Attend(&attention::EFFICIENT_FORWARD), "_efficient_attention_forward"),
    (Attention, Attend(&attention::CUDNN_FORWARD), "_cudnn_attention_forward"),
    (Attention, AttendBack(&attention::FLASH_BACKWARD), "_scaled_dot_product_flash_attention_backward"),
    (
        Attention,
        AttendBack(&attention::FLASH_CPU_BACKWARD),
        "_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
    (
        Attention,
        AttendBack(&attention::EFFICIENT_BACKWARD),
        "_scaled_dot_product_efficient_attention_backward",
    ),
    (
        Attention,
        AttendBack(&attention::CUDNN_BACKWARD),
        "_scaled_dot_product_cudnn_attention_backward _cudnn_attention_backward",
    ),
    (
        Attention,
        AttendBack(&attention::OVERRIDEABLE_BACKWARD),
        "_scaled_dot_product_fused_attention_overrideable_backward",
    ),
    (Attention, AttendBack(&attention::PLAIN_FLASH_BACKWARD), "_flash_attention_backward"),
    (Attention, AttendBack(&attention::PLAIN_EFFICIENT_BACKWARD), "_efficient_attention_backward"),
    // ---- Normalisation ---------------------------------------------------------------------------------------------
    (
        Normalisation,
        Of(no_work),
        "batch_norm _batch_norm_impl_index _batch_norm_impl_index_backward layer_norm rms_norm group_norm \
         instance_norm",
    ),
    (
        Normalisation,
        Of(normalisation::batch::<5>),
        "native_batch_norm cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit \
         _native_batch_norm_legit_functional",
    ),
    // It has no flag: it always trains.
    (Normalisation, Of(normalisation::batch::<{ usize::MAX }>), "_batch_norm_with_update"),
    (
        Normalisation,
        Of(normalisation::scaled::<5>),
        "_native_batch_norm_legit_no_training _batch_norm_no_update batch_norm_elemt",
    ),
    (
        Normalisation,
        Of(normalisation::batch_backward),
        "native_batch_norm_backward cudnn_batch_norm_backward miopen_batch_norm_backward \
         batch_norm_backward",
    ),
    (Normalisation, Of(normalisation::batch_statistics), "batch_norm_stats"),
    (Normalisation, Of(normalisation::batch_sums), "batch_norm_backward_reduce"),
    (Normalisation, Of(normalisation::scaled::<8>), "batch_norm_backward_elemt"),
    (Normalisation, Of(normalisation::layer), "native_layer_norm"),
    (Normalisation, Of(normalisation::layer_backward), "native_layer_norm_backward"),
    (Normalisation, Of(normalisation::root_mean_square), "_fused_rms_norm"),
    (Normalisation, Of(normalisation::root_mean_square_backward), "_fused_rms_norm_backward"),
    (Normalisation, Of(normalisation::group), "native_group_norm"),
    (Normalisation, Of(normalisation::group_backward), "native_group_norm_backward"),
    // ---- Arithmetic on elements ------------------------------------------------------------------------------------
    (
        Elementwise,
        Of(no_work),
        "ger outer relu6 hardtanh dropout feature_dropout alpha_dropout masked_fill square prelu \
          selu celu clip true_divide multiply subtract divide",
    ),
    (
        Elementwise,
        Of(map::<1>),
        "relu silu mish sigmoid tanh hardswish hardsigmoid log_sigmoid_forward exp expm1 log log1p log2 \
         sqrt rsqrt abs neg sin cos erf ceil floor trunc sign reciprocal sgn bitwise_not roll flip \
         tril triu",
    ),
    (
        Elementwise,
        Of(map::<2>),
        "mul div pow maximum minimum fmod remainder floor_divide atan2 clamp_min clamp_max gelu \
         leaky_relu silu_backward mish_backward sigmoid_backward tanh_backward hardswish_backward \
         hardsigmoid_backward bitwise_and bitwise_or bitwise_xor round",
    ),
    (
        Elementwise,
        Of(map::<3>),
        "add sub rsub clamp threshold softplus lerp where masked_fill_ elu threshold_backward \
         gelu_backward native_dropout_backward nan_to_num",
    ),
    (Elementwise, Of(map::<4>), "addcmul addcdiv hardtanh_backward leaky_relu_backward softplus_backward"),
    (Elementwise, Of(map::<6>), "elu_backward"),
    (Elementwise, Of(compare::<2>), "eq ne lt le gt ge logical_and logical_or logical_xor"),
    (Elementwise, Of(compare::<1>), "logical_not isnan isinf isfinite"),
    (Elementwise, Of(dropout), "native_dropout"),
    (
        Elementwise,
        Of(fill),
        "fill_ zero_ bernoulli_ normal_ uniform_ random_ exponential_ geometric_ log_normal_ cauchy_",
    ),
    (Elementwise, Of(sum), "sum mean"),
    (Elementwise, Of(reduce), "amax amin var std logsumexp"),
    (Elementwise, Of(reduce_twice), "var_mean std_mean"),
    (Elementwise, Of(norm), "norm linalg_vector_norm"),
    (Elementwise, Of(gather), "max min prod all any argmax argmin cumprod equal"),
    // ---- Pooling ---------------------------------------------------------------------------------------------------
    (
        Pooling,
        Of(no_work),
        "max_pool2d max_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d max_pool1d avg_pool1d adaptive_max_pool1d \
 ",
    ),
    (Pooling, Of(pooling::largest), "max_pool2d_with_indices max_pool3d_with_indices"),
    (
        Pooling,
        Of(pooling::largest_backward),
        "max_pool2d_with_indices_backward max_pool3d_with_indices_backward",
    ),
    (Pooling, Of(pooling::largest_alone), "mkldnn_max_pool2d quantized_max_pool2d"),
    (Pooling, Of(pooling::mean), "avg_pool2d avg_pool3d"),
    (Pooling, Of(pooling::to_size), "_adaptive_avg_pool2d _adaptive_avg_pool3d"),
    (
        Pooling,
        Of(pooling::resize::<0>),
        "upsample_nearest2d upsample_nearest3d _upsample_nearest_exact2d _upsample_nearest_exact3d",
    ),
    (
        Pooling,
        Of(pooling::resize::<1>),
        "upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa",
    ),
    (Pooling, Of(gather), "adaptive_max_pool2d adaptive_max_pool3d upsample_nearest1d upsample_linear1d"),
    (
        Pooling,
        Of(pooling::backward),
        "avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward \
         _adaptive_avg_pool3d_backward",
    ),
    (
        Pooling,
        Of(pooling::resize_backward),
        "upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward \
         upsample_linear1d_backward upsample_bilinear2d_backward upsample_bicubic2d_backward \
         upsample_trilinear3d_backward",
    ),
    // ---- Losses, softmax, gathers ----------------------------------------------------------------------------------
    (
        Lookup,
        Of(no_work),
        "cross_entropy_loss nll_loss nll_loss_nd nll_loss2d softmax log_softmax \
         binary_cross_entropy_with_logits embedding embedding_backward index_put one_hot index_fill \
         _safe_softmax kl_div l1_loss triplet_margin_loss cosine_embedding_loss",
    ),
    (Lookup, Of(lookup::softmax), "_softmax _log_softmax"),
    (Lookup, Of(lookup::softmax_backward), "_softmax_backward_data _log_softmax_backward_data"),
    (Lookup, Of(lookup::negative_log_likelihood), "nll_loss_forward nll_loss2d_forward"),
    (Lookup, Of(lookup::negative_log_likelihood_backward), "nll_loss_backward nll_loss2d_backward"),
    // These write the loss of each element. `mean` or `sum`, which they call, reads it.
    (Lookup, Of(map::<2>), "mse_loss smooth_l1_loss huber_loss"),
    (Lookup, Of(map::<3>), "mse_loss_backward smooth_l1_loss_backward huber_loss_backward"),
    (
        Lookup,
        Of(gather),
        "embedding_dense_backward index index_select _index_put_impl index_add index_copy gather scatter \
         scatter_add scatter_reduce take masked_select masked_scatter nonzero sort topk unique_dim \
         _unique2 bincount searchsorted embedding_renorm _embedding_bag _embedding_bag_dense_backward \
         _ctc_loss _ctc_loss_backward _use_cudnn_ctc_loss _cudnn_ctc_loss binary_cross_entropy \
         binary_cross_entropy_backward multilabel_margin_loss_forward",
    ),
    // ---- The optimizer ---------------------------------------------------------------------------------------------
    (
        Optimizer,
        Of(gather),
        "_fused_sgd _fused_adam _fused_adamw _fused_adagrad _amp_foreach_non_finite_check_and_unscale \
         _amp_update_scale",
    ),
    // ---- Copies ----------------------------------------------------------------------------------------------------
    (Copy, Of(copy), "copy_ _copy_from _copy_from_and_resize"),
    (Copy, Of(gather), "cat im2col col2im repeat_interleave split_with_sizes_copy unbind_copy"),
    (
        Copy,
        Of(no_work),
        "to _to_copy clone contiguous type_as cpu cuda stack _stack hstack \
         vstack concat repeat tile slice_backward select_backward constant_pad_nd pad _pin_memory \
         pin_memory item reshape_as",
    ),
    // ---- Views and allocations -------------------------------------------------------------------------------------
    (
        Other,
        Of(no_work),
        "view _unsafe_view view_as _reshape_alias reshape flatten unflatten expand expand_as \
         broadcast_tensors permute transpose t select slice narrow unbind split split_with_sizes chunk \
         tensor_split squeeze unsqueeze as_strided detach alias diagonal unfold view_as_real \
         view_as_complex movedim swapaxes lift_fresh resolve_conj resolve_neg empty empty_like \
         empty_strided new_empty new_empty_strided resize resize_as set zeros zeros_like ones ones_like \
         full full_like new_zeros new_ones new_full rand randn rand_like randn_like scalar_tensor \
         result_type is_nonzero is_floating_point requires_grad _has_compatible_shallow_copy_type \
         _nnpack_available output_nr _version retain_grad rename unsafe_chunk unsafe_split \
         unsafe_split_with_sizes",
    ),
];
