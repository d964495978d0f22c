"""SGLang: the kernels of its own sources. Those of quack and FlashInfer, which it also uses, are these two's."""

from __future__ import annotations

from precast.attach.libraries.flash_attention import ceil_div
from precast.attach.libraries.flashinfer import MAKERS, describe
from precast.attach.libraries.native_stubs import empty_where_absent
from precast.attach.library import Library
from precast.attach.seams.hooks import CacheAttribute, CompileFunctions
from precast.attach.seams.method_hooks import ClassMethods

_FLASH_ATTENTION = "sglang.kernels.ops.attention.flash_attn"
DEVICES = ("device", "device_index", "device_id")
PASSED = {
    "sglang.kernels.ops.communication.muse_spark_moe_finalize_all_reduce_cutedsl:_get_compiled_kernel": ("stream",),
    "sglang.kernels.ops.gemm.nvfp4_gemm_swiglu_nvfp4_quant:_get_compiled": (
        "a_ptr", "b_ptr", "a_sf_ptr", "b_sf_ptr", "c_ptr", "c_sf_ptr", "alpha_ptr", "norm_const_ptr", "m", "stream",
    ),
}  # fmt: skip
"""The arguments that these functions pass on to the kernel at each call."""


def without_gpu() -> None:
    """Let SGLang be imported without its native modules."""
    empty_where_absent(("sgl_kernel", "deep_gemm"))


LIBRARY = Library(
    name="sglang",
    distribution="sglang",
    package="sglang",
    seams=(
        CompileFunctions("sglang", without=(_FLASH_ATTENTION,), devices=DEVICES, passed=PASSED),
        ClassMethods("sglang", without=(_FLASH_ATTENTION,), devices=DEVICES),
        CacheAttribute(f"{_FLASH_ATTENTION}.cute.interface", "compile_cache"),
    ),
    imports=("quack",),
    environment={"FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "0"},
    answers={"cutlass.cute:ceil_div": ceil_div},
    describe=describe,
    makers=MAKERS,
    without_gpu=without_gpu,
    by_module=True,
)
