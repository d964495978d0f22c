"""The kernels that vLLM compiles for a model: ``python -m ... FOLDER [--tensor-parallel N]``, where it is recorded.

The model's layers are made as a worker makes them. vLLM's own registry then knows the kernels that they chose, and its
own functions give the keys to compile. Kernels of Triton are left out: nothing of them goes through the DSL.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from precast.kernels.adapters.engines.model_kernels import meeting_place, options, say, step
from precast.loader.errors import ConfigError

_WARM_UP = "vllm.model_executor.warmup"
_OTHER_COMPILERS = ("triton", "tilelang")
_QUIET = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_DISABLE_PYNCCL": "1", "VLLM_ALLREDUCE_USE_SYMM_MEM": "0"}


def main() -> None:
    """Make the model, and compile every key."""
    given = options()
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    config = engine_config(str(given.model), given.tensor_parallel, dict(given.option))
    with importlib.import_module("vllm.config").set_current_vllm_config(config):
        _join_group(given.tensor_parallel)
        registry = importlib.import_module(f"{_WARM_UP}.jit_warmup").JitWarmupRegistry(config)
        model = None
        with step("the model, and so the kernels that its layers choose"):
            model = make_model(config, registry)
        if model is not None:
            with step("the kernels that attention chooses"):
                _build_metadata(config, registry)
        compile_registered(config, registry)
        if model is not None:
            warm_up_layers(config, model)


def engine_config(model: str, tensor_parallel: int, more: Mapping[str, Any]) -> Any:
    """vLLM's configuration of a model without weights."""
    arguments = importlib.import_module("vllm.engine.arg_utils").EngineArgs
    names = {field.name for field in dataclasses.fields(arguments)}
    for name in more:
        if name not in names:
            raise ConfigError(f"vLLM has no option {name!r}: use the names of its EngineArgs")
    given = {
        "model": model,
        "tokenizer": model,
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "tensor_parallel_size": tensor_parallel,
        "disable_custom_all_reduce": True,
        "distributed_executor_backend": "mp" if tensor_parallel > 1 else None,
    }
    return arguments(**{**given, **more}).create_engine_config()


def _join_group(world: int) -> None:
    """Be the first process of a group whose others are not there."""
    import torch

    distributed = importlib.import_module("vllm.distributed")
    if world > 1:
        _let_nobody_answer(world)
    backend = "fake" if world > 1 else "gloo"
    distributed.init_distributed_environment(world, 0, meeting_place(), 0, backend=backend)
    distributed.ensure_model_parallel_initialized(world, 1)
    importlib.import_module("vllm.v1.worker.workspace").init_workspace_manager(torch.device("cuda", 0))


def _let_nobody_answer(world: int) -> None:
    """Give every group torch's fake backend, whose collectives do nothing, and no queue to the other processes."""
    import torch

    importlib.import_module("torch.testing._internal.distributed.fake_pg")
    new_group: Any = torch.distributed.new_group

    @functools.wraps(new_group)
    def fake_group(ranks: Any = None, timeout: Any = None, backend: Any = None, **more: Any) -> Any:
        return new_group(ranks, timeout, "fake", **more)

    torch.distributed.new_group = fake_group
    queue = importlib.import_module("vllm.distributed.device_communicators.shm_broadcast").MessageQueue
    queue.create_from_process_group = staticmethod(lambda *args, **kwargs: None)
    state: Any = importlib.import_module("vllm.distributed.parallel_state")
    state.in_the_same_node_as = lambda *args, **kwargs: [True] * world


def make_model(config: Any, registry: Any) -> Any:
    """The model on tensors without memory; the registry collects what its layers will compile."""
    import torch

    utilities = importlib.import_module("vllm.model_executor.model_loader.utils")
    default_dtype = importlib.import_module("vllm.utils.torch_utils").set_default_torch_dtype
    with registry.activate(), default_dtype(config.model_config.dtype), torch.device("meta"):
        model = utilities.initialize_model(vllm_config=config)
    say(f"made {type(model).__name__}: {sum(1 for _ in model.modules())} layers, {len(registry)} kernels registered")
    return model


def _build_metadata(config: Any, registry: Any) -> None:
    """Make the builder of attention metadata of each layer's kind: some choose kernels, too."""
    import torch

    layers = config.compilation_config.static_forward_context
    kinds = set()
    for name, layer in layers.items():
        backend = getattr(layer, "get_attn_backend", None)
        spec = layer.get_kv_cache_spec(config) if hasattr(layer, "get_kv_cache_spec") else None
        if backend is None or spec is None or (kind := (backend().full_cls_name(), spec)) in kinds:
            continue
        kinds.add(kind)
        with step(f"the attention kernels of {name}"), registry.activate():
            builder = backend().get_builder_cls()
            more = {"block_table_width": -(-config.model_config.max_model_len // spec.block_size)}
            taken = {n: value for n, value in more.items() if n in inspect.signature(builder).parameters}
            builder(spec, [name], config, torch.device("cuda", 0), **taken)


def compile_registered(config: Any, registry: Any) -> None:
    """Compile the keys of all registered kernels of the DSL, and of those that a config alone gives the keys of."""
    base = importlib.import_module(f"{_WARM_UP}.jit_warmup_cutedsl_helper").VllmCuTeDSLJitKernel
    requested = {kernel: list(calls) for kernel, calls in registry._registrations.items() if of_dsl(kernel)}
    for kernel in _kernels_of_imported_modules(base):
        parameters = inspect.signature(kernel.get_warmup_keys).parameters.values()
        needed = [p.name for p in parameters if p.default is p.empty]
        if kernel not in requested and needed in ([], ["vllm_config"]):
            requested[kernel] = [((), {})]
        elif kernel not in requested:
            say(
                f"not enumerated: {type(kernel).__name__}, whose keys need {', '.join(needed)} (no layer registered it)"
            )
    for kernel, calls in requested.items():
        with step(f"the keys of {type(kernel).__name__}"):
            takes_config = "vllm_config" in inspect.signature(kernel.get_warmup_keys).parameters
            keys = {}
            for args, kwargs in calls:
                more = {"vllm_config": config} if takes_config and not args and not kwargs else kwargs
                keys.update(dict.fromkeys(kernel.get_warmup_keys(*args, **more)))
            for key in keys:
                kernel.compile(key)
            say(f"{type(kernel).__name__}: {len(keys)} keys")


def of_dsl(kernel: Any) -> bool:
    """Whether a registered kernel is compiled by the DSL: by no other compiler that vLLM registers kernels of.

    No class of theirs names the DSL: the kernel around FlashAttention-4 derives from the class of all kernels.

    >>> class TritonKernel: ...
    >>> class AttentionKernel: ...
    >>> of_dsl(TritonKernel()), of_dsl(AttentionKernel())
    (False, True)
    """
    compiled = getattr(kernel, "kernel", None)
    named = [*type(kernel).__mro__, *type(compiled).__mro__, compiled]
    words = " ".join(f"{getattr(part, '__module__', '')} {getattr(part, '__qualname__', '')}" for part in named).lower()
    return not any(compiler in words for compiler in _OTHER_COMPILERS)


def _kernels_of_imported_modules(base: type) -> Iterable[Any]:
    modules = [module for name, module in sorted(sys.modules.items()) if name.startswith("vllm.")]
    values = [value for module in modules for value in list(vars(module).values()) if isinstance(value, base)]
    return dict.fromkeys(values)


def warm_up_layers(config: Any, model: Any) -> None:
    """What vLLM's workers compile by walking over the layers of the model."""
    warm_up = importlib.import_module(f"{_WARM_UP}.kernel_warmup")
    platform = importlib.import_module("vllm.platforms").current_platform
    if platform.has_device_capability(90):
        with step("the router's kernels (ll_bf16)"):
            warm_up._warmup_ll_bf16_router_gemm(model)
    if platform.is_device_capability_family(100):
        with step("the router's kernels (bf16x3)"):
            warm_up._warmup_bf16x3_router_gemm(model, config.scheduler_config.max_num_batched_tokens)
    with step("products with reduce-scatter"):
        warm_up._warmup_gemm_rs_ar()
    with step("the prefill kernels of gated delta net"):
        _warm_up_delta_nets(model)
    with step("compile units of layers"):
        units = importlib.import_module(f"{_WARM_UP}.cutedsl_warmup")
        for unit in units._collect_unique_compile_units(units._iter_cutedsl_warmup_compile_units()):
            with step(unit.name):
                unit.compile()


def _warm_up_delta_nets(model: Any) -> None:
    """Run the chunked prefill of one layer, as vLLM does while it profiles."""
    import torch

    layer = next((m for m in model.modules() if hasattr(m, "_warmup_prefill_kernels")), None)
    if layer is None:
        return
    columns = (2 * layer.num_k_heads * layer.head_k_dim + layer.num_v_heads * layer.head_v_dim) // layer.tp_size
    layer._warmup_prefill_kernels(torch.empty(64, columns, dtype=torch.bfloat16, device="cuda"), 0)


if __name__ == "__main__":
    main()
