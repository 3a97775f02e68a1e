"""JAX: its synchronisation, and the facts that it shows about the training.

JAX does not show in which type the operations inside a compiled function compute, so a script declares its precision.
But JAX shows whether it rounds products of single precision. The peak of memory that it reports is that of the first
device, or of jax_default_device, since the process began.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Optional

from . import _process
from ._framework import LIBRARIES, Framework, Settings, Unusable

_LIBRARIES = ("jax", "jaxlib", "flax", "optax", "equinox", *LIBRARIES)
_DEVICES = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "METAL": "mps"}

# The meaning of `jax_default_matmul_precision` for products of single precision on NVIDIA GPUs. JAX's default is the
# fastest, which is TF32 where there is TF32: https://docs.jax.dev/en/latest/201/precision.html. Products in several
# passes, such as BF16_BF16_F32_X6, have no name here: they come close to single precision.
_PRODUCTS = {
    **dict.fromkeys(("float32", "highest", "F32_F32_F32"), "fp32"),
    **dict.fromkeys(("default", "fastest", "high", "tensorfloat32", "TF32_TF32_F32"), "tf32"),
    **dict.fromkeys(("bfloat16", "bfloat16_3x"), "tf32"),  # other names of "fastest" and "high"
    **dict.fromkeys(("BF16_BF16_F32", "BF16_BF16_BF16"), "bf16"),
}
# The first compute capability with TF32: Ampere.
_HAS_TF32 = 8


class JaxFramework(Framework):
    """JAX in this process."""

    def __init__(self) -> None:
        import jax

        self._jax: Any = jax
        if jax.process_count() > 1:
            raise Unusable("several JAX processes are not measured together: run one")
        self._seen = {self._products()}
        self._peak: Optional[int] = None

    def synchronize(self) -> None:
        # An array without references was either an input of a live array, or is no longer needed.
        for platform in {str(self._jax.default_backend()), str(self._device().platform), "cpu"}:
            for array in self._live_arrays(platform):
                array.block_until_ready()
        self._jax.effects_barrier()

    def _live_arrays(self, platform: str) -> list[Any]:
        try:
            return list(self._jax.live_arrays(platform))
        except RuntimeError:  # this platform is disabled in JAX
            return []

    def _device(self) -> Any:
        """The device that computes unless an operation says another one."""
        default = getattr(self._jax.config, "jax_default_device", None)
        return self._jax.devices(default)[0] if default is None or isinstance(default, str) else default

    def numbers(self, losses: Sequence[Any]) -> list[Optional[float]]:
        return super().numbers(self._jax.device_get(list(losses)))

    def clock(self) -> str:
        return "submission"

    def device(self) -> Optional[str]:
        platform = str(self._device().platform)
        return _DEVICES.get(platform, platform)

    def open(self) -> None:
        self._seen = {self._products()}

    def tick(self) -> None:
        self._seen.add(self._products())

    def close(self) -> None:
        if self.device() != "cpu":
            self._peak = (self._device().memory_stats() or {}).get("peak_bytes_in_use")

    def precision(self, said: Optional[str]) -> Optional[str]:
        """JAX only shows how it rounds products of single precision, if that is the same in all iterations."""
        if said not in ("fp32", "tf32") or self.device() != "cuda" or len(self._seen) != 1:
            return None
        major = str(getattr(self._device(), "compute_capability", "")).split(".")[0]
        if not major.isdigit():
            return None
        (products,) = self._seen
        if products.startswith(("F16", "ANY_F8")):
            raise Unusable(f"jax_default_matmul_precision={products} cannot be reported as a precision")
        found = _PRODUCTS.get(products)
        return "fp32" if found == "tf32" and int(major) < _HAS_TF32 else found

    def _products(self) -> str:
        return str(self._jax.config.jax_default_matmul_precision or "default")

    def settings(self) -> Settings:
        products = "/".join(sorted(self._seen))
        found = {"matmul_precision": products, "x64": bool(self._jax.config.jax_enable_x64)}
        # JAX does not show whether a function was compiled; but none is if that is switched off.
        return {**found, "compile": False} if self._jax.config.jax_disable_jit else found

    def details(self) -> dict[str, Any]:
        device = self._device()
        on_cpu = self.device() == "cpu"
        return {
            "device_name": _process.processor() if on_cpu else device.device_kind,
            "versions": _process.versions(_LIBRARIES),
            "peak_device_allocated_bytes": self._peak,
        }
