"""FlashInfer: functions that compile and return a kernel, most of them under ``functools.cache``.

The gated delta rule keeps kernels in one mapping, by the kernel object and the options of the compilation.

The fused mixture of experts passes pointers, problem sizes and a stream to its compile functions, which pass them on to
the kernel and keep kernels by the other arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from precast.attach.compiler.occupancy import clusters_of_this_gpu
from precast.attach.library import Library
from precast.attach.recordings.key_reader import find
from precast.attach.seams.hooks import CompileFunctions
from precast.attach.seams.shared_mapping import SharedMapping

_POINTER, _STREAM = "pointer", "stream"
_ADDRESS = 1 << 20  # aligned for every assumed alignment, and never read
_ALIGNMENTS = ("_assumed_align", "alignment")


def describe(value: Any, notes: Mapping[str, Any]) -> tuple[str, tuple[Any, ...]] | None:
    """How to make a pointer or a stream of the same type; None for any other value."""
    kind = type(value)
    if kind.__name__ == "CUstream":
        return _STREAM, ()
    if not (hasattr(kind, "__c_pointers__") or hasattr(kind, "__tvm_ffi_opaque_ptr__")):
        return None
    memory = getattr(value, "memspace", None)
    if memory is None:
        return None
    name = memory.__name__ if isinstance(memory, type) else memory.name  # a placeholder is a type
    alignment = next(getattr(value, name) for name in _ALIGNMENTS if hasattr(value, name))
    return _POINTER, (value.dtype, name, alignment)


def pointer(dtype: Any, memory: str, alignment: int) -> Any:
    """A pointer to compile for."""
    space = getattr(find("cutlass:AddressSpace"), memory)
    return find("cutlass.cute.runtime:make_ptr")(dtype, _ADDRESS, space, assumed_align=alignment)


def stream() -> Any:
    """A stream to compile for."""
    return find("cutlass.cute.runtime:make_fake_stream")()


MAKERS: Mapping[str, Callable[..., Any]] = {_POINTER: pointer, _STREAM: stream}

_MOE = "flashinfer.fused_moe.cute_dsl"
_GATHER, _FINALIZE = "contiguous_gather_grouped_gemm_act_fusion", "contiguous_grouped_gemm_finalize_fusion"
_SIZES = ("permuted_m", "n", "k", "num_experts", "stream", "a_ptr", "b_ptr", "tile_idx_ptr", "mn_limit_ptr",
          "num_tiles_ptr")  # fmt: skip
_SCALED = (*_SIZES, "a_sf_ptr", "b_sf_ptr", "c_ptr", "alpha_ptr", "a_per_token_scale_ptr")
PASSED = {
    f"{_MOE}.sm90_{_GATHER}:_get_compiled_gather_kernel": (*_SIZES, "orig_m", "c_ptr", "token_id_ptr"),
    f"{_MOE}.sm90_{_FINALIZE}:_get_compiled_finalize_kernel": (
        *_SIZES, "num_tokens", "out_rows", "out_ptr", "token_id_ptr", "token_scales_ptr",
    ),
    f"{_MOE}.blockscaled_{_GATHER}:_get_compiled_gather_kernel": (
        *_SCALED, "orig_m", "c_sf_ptr", "token_id_ptr", "norm_const_ptr",
    ),
    f"{_MOE}.blockscaled_{_FINALIZE}:_get_compiled_finalize_kernel": (
        *_SCALED, "seq_len", "permuted_idx_ptr", "token_scales_ptr",
    ),
}  # fmt: skip
"""The arguments that these functions pass on to the kernel at each call."""


_DELTA_RULE = "flashinfer.gdn_kernels"
SHARED_CACHE = f"{_DELTA_RULE}.delta_rule_dsl.custom_compile_cache"


LIBRARY = Library(
    name="flashinfer",
    distribution="flashinfer-python",
    package="flashinfer",
    seams=(
        CompileFunctions(
            "flashinfer",
            without=("flashinfer.experimental", "flashinfer.data", SHARED_CACHE),
            through=("build_and_load_cute_dsl_kernel",),
            passed=PASSED,
        ),
        SharedMapping(SHARED_CACHE, "_in_mem_compile_cache", lookup="get_cached_compile", package=_DELTA_RULE),
    ),
    imports=("quack",),
    native_modules=(
        "flashinfer.jit.core:JitSpec.build_and_load",
        "tvm_ffi.cpp:load_inline",
        f"{_MOE}.moe_utils:_get_moe_utils_module",  # would download sources first
    ),
    environment={"FLASHINFER_CUTE_DSL_DISABLE_CACHE": "1"},  # its disk cache: loading from it needs the DSL
    describe=describe,
    makers=MAKERS,
    answers={"flashinfer.cute_dsl.utils:get_max_active_clusters": clusters_of_this_gpu},
)
