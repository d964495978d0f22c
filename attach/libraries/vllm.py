"""vLLM: the kernels of its own sources. Those of quack and FlashInfer, which it also uses, are these libraries' own.

Its compile functions ask for the platform, which decides whether kernels use programmatic dependent launch. That
follows from the target: ``without_gpu`` lets the platform be found where there is no GPU, and CUDA, which the builder
replaces, then answers as the target's GPU does.
"""

from __future__ import annotations

import functools
import sys
from types import ModuleType
from typing import Any

from precast.attach.attachment import Attachment
from precast.attach.libraries.flash_attention import ceil_div
from precast.attach.libraries.flashinfer import MAKERS, describe
from precast.attach.libraries.native_stubs import NativeOperatorAbsent, empty_where_absent
from precast.attach.libraries.tensor_specs import ANSWERS, TENSOR_SPEC, describe_tensor_spec, tensor_spec
from precast.attach.library import Library
from precast.attach.process import attached
from precast.attach.seams.hooks import CacheAttribute, CompileFunctions
from precast.attach.seams.method_hooks import ClassMethods, Keyed, KeyedMethods, prebuilt
from precast.loader.contract.import_hook import after_import

_FLASH_ATTENTION = ("vllm.vllm_flash_attn.cute", "vllm.third_party.tml_fa4")
_OTHERS = (  # their functions name cute.compile, and compile for others, or have seams of their own
    *_FLASH_ATTENTION, "vllm.utils", "vllm.model_executor.warmup", "vllm.third_party.fmha_sm100",
)  # fmt: skip
_LINEAR = "vllm.model_executor.kernels.linear.cute_dsl"
_REQUESTED = ("_warmup_registered", "_warmup_configs", "_warmup_m", "_warmup_n", "_warmup_k")
DEVICES = ("device", "device_index", "device_id")

_IN_CACHE = Keyed(filed=("_compiled_cache",), without=("_dispatch_trace", *_REQUESTED))
_LL_BF16 = Keyed(filed=("_compiled_cache", "_splitk_cache"), without=_REQUESTED)


def _on_this_device(instance: Any, num_rows: int) -> tuple[int, int]:
    return sys.modules["torch"].accelerator.current_device_index(), num_rows


_MUSE = "vllm.models.muse_spark.nvidia.ops.cute_dsl"
PASSED = {
    f"{_MUSE}.moe_finalize_rmsnorm:_compiled_kernel": ("stream",),
    f"{_MUSE}.qk_norm:_compiled_kernel": ("stream",),
}
"""The arguments that these functions pass on to the kernel at each call."""

METHODS = {
    "vllm.model_executor.warmup.jit_warmup_cutedsl_helper:VllmCuTeDSLJitKernel.compile": _IN_CACHE,
    f"{_LINEAR}.ll_fp32w:LLFp32WGemm.compile": _IN_CACHE,
    f"{_LINEAR}.ll_bf16:LLBf16Gemm._compile_splitk": _LL_BF16,
    f"{_LINEAR}.ll_bf16:LLBf16Gemm._compile_dotprod": _LL_BF16,
    f"{_LINEAR}.skinny_gemm:ShapeDynamicSkinnyGemm._compile": Keyed(filed=("_compiled",), without=_REQUESTED),
    "vllm.models.qwen4_exp.nvidia.ops.cute_dsl.hc_down_silu:HcDownSiluGemm.compile": Keyed(
        filed=("_compiled",), without=_REQUESTED
    ),
    **{
        f"vllm.models.kimi_k3.nvidia.ops.cute_dsl.kda_skinny_gemm:KdaSkinnyGemm._compile_{which}": Keyed(
            filed=(f"_compiled_{which}",),
            without=(*_REQUESTED, "_compiled_n", "_compiled_k"),
            entry=_on_this_device,
        )
        for which in ("n", "k")
    },
}
"""The methods that compile for a key, and where each files its kernels."""

_NATIVE = (
    "vllm._C", "vllm._C_stable_libtorch", "vllm._moe_C", "vllm._moe_C_stable_libtorch", "vllm.cumem_allocator",
    "vllm._flashmla_C", "vllm._flashmla_extension_C", "vllm.vllm_flash_attn._vllm_fa2_C",
    "vllm.vllm_flash_attn._vllm_fa3_C", "vllm.third_party.deep_gemm", "tilelang",
)  # fmt: skip
_MAKERS = ("_vllm_fa2_C", "_vllm_fa3_C")  # whose operators return tensors
_QUESTIONS = "_supports_"  # called while modules are imported; no kernel of the DSL depends on the answers


def without_gpu() -> None:
    """Let vLLM find the platform of the GPU that CUDA reports, and be imported without its native modules."""

    def find_platform(module: ModuleType) -> None:
        module.resolve_current_platform_cls_qualname = lambda: (  # type: ignore[attr-defined]
            "vllm.platforms.cuda.NonNvmlCudaPlatform"
        )

    def inspect_here(module: ModuleType) -> None:
        module._run_in_subprocess = lambda function: function()  # type: ignore[attr-defined]

    empty_where_absent(_NATIVE)
    after_import(
        {
            "vllm.platforms": find_platform,
            "vllm._custom_ops": _answer_for_operators,  # afterwards: it registers shapes for the operators that exist
            "vllm.model_executor.models.registry": inspect_here,  # another process would ask the machine again
        }
    )


class _Operator:
    """An operator of a native module that is not here; it does nothing, or refuses where it would make results."""

    def __init__(self, name: str, makes: bool) -> None:
        self._name, self._makes = name, makes

    def __getattr__(self, name: str) -> _Operator:
        if name.startswith("__"):
            raise AttributeError(name)
        return self  # an overload, such as ``default``

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "scheduler_metadata" in self._name:
            return sys.modules["torch"].empty(1, dtype=sys.modules["torch"].int32, device="cuda")
        if self._makes:
            raise NativeOperatorAbsent(f"{self._name} needs a native module, which is not loaded here")
        return False if _QUESTIONS in self._name else None


def _answer_for_operators(module: ModuleType) -> None:
    """Have operators of native modules that are not here do nothing."""
    operators: Any = sys.modules["torch"].ops

    class Operators(type(operators._C)):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            try:
                return super().__getattr__(name)
            except AttributeError:
                if name.startswith("__"):
                    raise
                setattr(self, name, operator := _Operator(name, self.name in _MAKERS))
                return operator

    for name in ("_C", "_moe_C", "_C_cache_ops", *_MAKERS):
        setattr(operators, name, Operators(name))


def prebuilt_executor(owner: Any, compile_key: Any) -> Any:
    """The kernel that a ``VllmCuTeDSLJitKernel`` would compile for a key; None where no cache has it. vLLM requests it
    with ``docs/upstream/vllm.patch``, whether it is attached or not."""
    attachment = attached()
    if attachment is None:
        if "precast.build" in sys.modules:  # a build must compile: an installed cache may be of an earlier one
            return None
        attachment = _unattached()
    filed = prebuilt(attachment, LIBRARY, owner, "compile", {"compile_key": compile_key})
    return None if filed is None else next(iter(filed["_compiled_cache"].values()))


@functools.cache
def _unattached() -> Any:
    """What looks kernels up for an engine that requests them itself."""
    return Attachment("serve")


LIBRARY = Library(
    name="vllm",
    distribution="vllm",
    package="vllm",
    seams=(
        CompileFunctions("vllm", without=_OTHERS, devices=DEVICES, passed=PASSED),
        ClassMethods("vllm", without=_OTHERS, devices=DEVICES),
        KeyedMethods(METHODS),
        *(
            CacheAttribute(f"{package}.{module}", "compile_cache")
            for package in _FLASH_ATTENTION
            for module in ("interface", "compute_block_sparsity")
        ),
    ),
    imports=("quack",),
    environment={"FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "0"},
    answers={"cutlass.cute:ceil_div": ceil_div, **ANSWERS},
    describe=lambda value, notes: describe_tensor_spec(value, notes) or describe(value, notes),
    makers={**MAKERS, TENSOR_SPEC: tensor_spec},
    without_gpu=without_gpu,
    by_module=True,
)
