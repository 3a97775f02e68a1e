"""The FLOPs of single operators of PyTorch, 2 per multiply-add.

Most formulas are those of PyTorch (`torch.utils.flop_counter`). Those here replace missing or wrong ones.
"""

from __future__ import annotations

import logging
import math
from typing import Any, Callable

Formula = Callable[..., float]

# Operators of these libraries are counted, or compute no products.
_KNOWN = {"aten", "prim", "prims", "c10d", "_c10d_functional", "profiler", "fsdp", "quantized_decomposed"}

# Products of `aten` without a formula.
_WITHOUT_FORMULA = {
    "miopen_rnn", "miopen_rnn_backward", "_lstm_mps", "lstm_mps_backward", "_trilinear", "_scaled_grouped_mm",
    "_sparse_semi_structured_mm", "_sparse_mm", "_sparse_addmm", "sspaddmm", "_sparse_sparse_matmul",
    "_sparse_mm_reduce_impl", "_sparse_mm_reduce_impl_backward", "sparse_sampled_addmm", "triangular_solve",
    "_cholesky_solve_helper", "ormqr", "cholesky", "cholesky_inverse", "geqrf", "_euclidean_dist", "conv_tbc",
}

# Factorisations, solvers and Fourier transforms begin so.
_WITHOUT_FORMULA_BEGIN = ("linalg_", "_linalg_", "_fft_")

# These begin so, too, but compute no products.
_NO_PRODUCTS = {"linalg_vector_norm", "linalg_cross", "_linalg_check_errors"}


def formulas(torch: Any) -> dict[Any, Formula]:
    """The formula of each operator that has one. It is called with the operator's arguments, and `out_val`."""
    # It warns of kernels by Triton, which are listed here as what they are: operators without a formula.
    logging.getLogger("torch.utils.flop_counter").setLevel(logging.ERROR)
    from torch.utils.flop_counter import flop_registry

    found = {packet: _without_recomputation(packet, count) for packet, count in flop_registry.items()}
    found.update(_own_formulas(torch))
    for name in ("addmm", "baddbmm", "addmv", "addbmm"):
        within, formula = getattr(torch.ops.aten, f"{name}_", None), found.get(getattr(torch.ops.aten, name, None))
        if within is not None and formula is not None:
            found[within] = formula
    return found


def has_no_formula(namespace: str, name: str) -> bool:
    """Whether an operator without a formula may compute products."""
    if namespace not in _KNOWN:
        return True
    return name in _WITHOUT_FORMULA or (name.startswith(_WITHOUT_FORMULA_BEGIN) and name not in _NO_PRODUCTS)


def _own_formulas(torch: Any) -> dict[Any, Formula]:
    """Formulas of operators that PyTorch's table lacks or counts wrongly."""
    aten = torch.ops.aten
    own: dict[str, Formula] = {
        "convolution_backward": _convolution_backward,
        "linear": _linear,
        "linear_backward": _linear_backward,
        "mv": lambda matrix, *args, **kwargs: 2.0 * matrix.numel(),
        "addmv": lambda added, matrix, *args, **kwargs: 2.0 * matrix.numel(),
        "dot": lambda vector, *args, **kwargs: 2.0 * vector.numel(),
        "vdot": lambda vector, *args, **kwargs: 2.0 * vector.numel(),
        "addbmm": lambda added, one, other, *args, **kwargs: 2.0 * one.numel() * other.shape[-1],
        "_addmm_activation": lambda added, one, other, *args, **kwargs: 2.0 * one.numel() * other.shape[-1],
        "_int_mm": lambda one, other, *args, **kwargs: 2.0 * one.numel() * other.shape[-1],
        "_grouped_mm": _grouped_products,
        "mkldnn_rnn_layer": _recurrent_layer,
        "mkldnn_rnn_layer_backward": _twice(_recurrent_layer),
        "_cudnn_rnn": _recurrent_network,
        "_cudnn_rnn_backward": _twice(_recurrent_network),
        "_scaled_dot_product_attention_math_for_mps": _attention,
        "_scaled_dot_product_flash_attention_for_cpu": _attention,
        "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    }
    for kind in ("flash_attention", "efficient_attention", "cudnn_attention", "fused_attention_overrideable"):
        own[f"_scaled_dot_product_{kind}"] = _attention
        own[f"_scaled_dot_product_{kind}_backward"] = _attention_backward
    return {getattr(aten, name): formula for name, formula in own.items() if hasattr(aten, name)}


def _convolution_backward(
    grad: Any, images: Any, weight: Any, biases: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Any, out_val: Any = None,
) -> float:
    """Each gradient takes as much as the forward pass. PyTorch's formula takes grouped convolutions for full ones."""
    from torch.utils.flop_counter import conv_flop_count

    each = conv_flop_count(images.shape, weight.shape, grad.shape, transposed=transposed)
    return float(each * sum(output_mask[:2]))


def _linear(data: Any, weight: Any, *args: Any, **kwargs: Any) -> float:
    """A layer that some devices do not take apart."""
    return 2.0 * data.numel() * weight.shape[0]


def _linear_backward(data: Any, grad: Any, weight: Any, output_mask: Any, **kwargs: Any) -> float:
    return _linear(data, weight) * sum(output_mask[:2])


def _grouped_products(one: Any, other: Any, *args: Any, out_val: Any = None, **kwargs: Any) -> float:
    """Products of which each has its own part of the rows, of the columns, or of what is summed over."""
    # Parts of a sum have separate results, each as large as that of the whole.
    results = out_val[0] if one.dim() == other.dim() == 2 else out_val
    return 2.0 * results.numel() * one.shape[-1]


def _attention(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> float:
    """Fused attention: queries with keys, and their weights with values. Several heads may share keys and values."""
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    return 2.0 * pairs * (query.shape[-1] + value.shape[-1])


def _attention_backward(grad: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> float:
    """The gradients of both products, without recomputation."""
    return 2.0 * _attention(query, key, value)


def _without_recomputation(packet: Any, count: Formula) -> Formula:
    """`count` without the recomputation in the backward pass of fused attention: one of its five products."""
    if "attention_backward" not in packet.__name__:
        return count
    return lambda *args, **kwargs: 0.8 * float(count(*args, **kwargs))


def _recurrent_layer(data: Any, of_data: Any, of_state: Any, *args: Any, **kwargs: Any) -> float:
    """Both matrices of weights are applied in each step of each sequence."""
    return 2.0 * math.prod(data.shape[:-1]) * (of_data.numel() + of_state.numel())


def _recurrent_network(data: Any, weights: Any, *args: Any, **kwargs: Any) -> float:
    """The same of all layers and directions."""
    return 2.0 * math.prod(data.shape[:-1]) * sum(weight.numel() for weight in weights if weight.dim() > 1)


def _twice(formula: Formula) -> Formula:
    """A backward pass: the gradients of inputs and of weights take as much as the forward pass each."""
    return lambda *args, **kwargs: 2.0 * formula(*args, **kwargs)
