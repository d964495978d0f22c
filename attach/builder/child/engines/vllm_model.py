"""The kernels that vLLM compiles for a model: ``python -m ... FOLDER [--tensor-parallel N]``, where it is recorded.

vLLM's own engine starts on tensors without memory: it makes the model, profiles it, warms up and captures graphs as its
options say. Then it is given requests, so that its scheduler forms batches of all sizes that the options allow.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from precast.attach.builder.child.engines.alike_layers import run_alike_once
from precast.attach.builder.child.engines.batches import Batch, Limits, first_batches, representatives
from precast.attach.builder.child.engines.model_kernels import finish, meeting_place, options, requested, say, step
from precast.loader.contract.import_hook import after_import
from precast.loader.errors import ConfigError

_ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DISABLE_PYNCCL": "1",
    "VLLM_ALLREDUCE_USE_SYMM_MEM": "0",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",  # its kernels are compiled by nvcc, and none of the DSL is among them
}
_CACHES = ("VLLM_CACHE_ROOT", "FLASHINFER_WORKSPACE_BASE")  # what an earlier start has tuned is not requested again
_GIB = 1 << 30
_MEMORY = {
    9: 80 * _GIB,
    10: 180 * _GIB,
}  # of the smallest GPU in data centers, by major capability: vLLM's defaults follow
_PAGES = 1 << 16  # of the KV cache, at least: their number is in no key
# The functions by which kernels are chosen for the numbers of a batch: requests, the most new tokens, the most in all.
_CHOOSERS = {
    f"{package}.interface:_get_fwd_config": ("batch_size", "max_seqlen_q", "max_seqlen_k")
    for package in ("vllm.vllm_flash_attn.cute", "vllm.third_party.tml_fa4")
}


def main() -> None:
    """Start the engine, and run its batches."""
    parsed = options()
    with tempfile.TemporaryDirectory(prefix="precast-") as caches:
        os.environ.update({**_ENVIRONMENT, **os.environ})
        os.environ.update(dict.fromkeys(_CACHES, caches))
        stand_in_for_memory()
        config = engine_config(str(parsed.model), parsed.tensor_parallel, dict(parsed.option))
        with importlib.import_module("vllm.config").set_current_vllm_config(config):
            _join_group(parsed.tensor_parallel)
            with step("the start of the engine, and all of its batches"), _chosen() as choices:
                engine = start(config)
                run_batches(engine, config, choices)
    finish()


def engine_config(model: str, tensor_parallel: int, more: Mapping[str, Any]) -> Any:
    """vLLM's configuration of a model without weights."""
    arguments = importlib.import_module("vllm.engine.arg_utils").EngineArgs
    names = {field.name for field in dataclasses.fields(arguments)}
    for name in more:
        if name not in names:
            raise ConfigError(f"vLLM has no option {name!r}: use the names of its EngineArgs")
    usage = importlib.import_module("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
    fields = {
        "model": model,
        "tokenizer": model,
        "skip_tokenizer_init": True,
        "load_format": "dummy",
        "tensor_parallel_size": tensor_parallel,
        "disable_custom_all_reduce": True,
        "distributed_executor_backend": "mp" if tensor_parallel > 1 else None,
    }
    config = arguments(**{**fields, **more}).create_engine_config(usage)
    config.compilation_config.mode = importlib.import_module(
        "vllm.config"
    ).CompilationMode.NONE  # it calls no other kernel
    if config.cache_config.num_gpu_blocks_override is None:
        config.cache_config.num_gpu_blocks_override = _PAGES + config.model_config.max_model_len
    return config


def _join_group(world: int) -> None:
    """Be the first process of a group whose others are not there."""
    distributed = importlib.import_module("vllm.distributed")
    if world > 1:
        _let_nobody_answer(world)
    backend = "fake" if world > 1 else "gloo"
    distributed.init_distributed_environment(world, 0, meeting_place(), 0, backend=backend)
    distributed.ensure_model_parallel_initialized(world, 1)


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


def stand_in_for_memory() -> None:
    """Answer vLLM's questions about the GPU's memory, and give no values to weights."""
    import torch

    platform: Any = importlib.import_module("vllm.platforms").current_platform
    kind = type(platform)
    kind.is_integrated_gpu = classmethod(lambda cls, device_id=0: False)
    kind.get_device_total_memory = classmethod(
        lambda cls, device_id=0: _MEMORY.get(torch.cuda.get_device_capability()[0], 80 * _GIB)
    )
    for name in ("vllm.utils.torch_utils", "vllm.v1.worker.gpu.buffer_utils"):
        module: Any = importlib.import_module(name)
        module.get_accelerator_view_from_cpu_tensor = _view
    loader: Any = importlib.import_module("vllm.model_executor.model_loader.dummy_loader")
    loader.initialize_single_dummy_weight = lambda *args, **kwargs: None


def _view(tensor: Any) -> Any:
    """Memory of the host as the GPU has it: no memory, and no values, which only kernels read."""
    import torch

    return torch.empty_like(tensor, device="cuda")


def start(config: Any) -> Any:
    """The engine with its one worker, in this process."""
    executor: Any = importlib.import_module("vllm.v1.executor.uniproc_executor").UniProcExecutor

    class Executor(executor):  # type: ignore[misc]
        def _init_executor(self) -> None:
            super()._init_executor()
            model = self.driver_worker.worker.get_model()
            say(f"made {type(model).__name__}, {run_alike_once(model)} of whose layers are like another")

    return importlib.import_module("vllm.v1.engine.core").EngineCore(config, Executor, False)


@contextlib.contextmanager
def _chosen() -> Iterator[Callable[[Limits], Iterable[Batch]]]:
    """While the block runs, a function that gives a batch for each answer of the choosing functions that were called.

    Each is called again with the arguments that it had, and with the numbers of every batch that the options allow.
    """
    calls: dict[str, Callable[[Batch], Any]] = {}

    def note(name: str, numbers: tuple[str, ...]) -> Callable[[Any], None]:
        def replace(module: Any) -> None:
            choose = getattr(module, name)

            def noted(**kwargs: Any) -> Any:
                others = {n: value for n, value in kwargs.items() if n not in numbers}
                calls.setdefault(
                    f"{module.__name__}{sorted(others.items())}",
                    lambda batch: choose(**others, **dict(zip(numbers, batch.numbers, strict=True))),
                )
                return choose(**kwargs)

            setattr(module, name, noted)

        return replace

    after_import({function.partition(":")[0]: note(function.partition(":")[2], n) for function, n in _CHOOSERS.items()})
    yield lambda limits: [batch for choose in calls.values() for batch in representatives(choose, limits).values()]


def run_batches(engine: Any, config: Any, choices: Callable[[Limits], Iterable[Batch]]) -> None:
    """Give the engine requests until batches ask for no new key, and tell how many it took."""
    scheduler = config.scheduler_config
    limits = Limits(
        requests=scheduler.max_num_seqs,
        tokens=scheduler.max_num_batched_tokens,
        length=config.model_config.max_model_len,
        page=config.cache_config.cache_hit_alignment_tokens or config.cache_config.block_size,
    )
    requests = Requests(engine, config)
    started = before = requested()
    last = None
    done: set[Batch] = set()
    waiting = dict.fromkeys(first_batches(limits))
    while waiting:
        for number, batch in enumerate(waiting, len(done) + 1):
            with step("some batches"):
                requests.form(batch)
            if requested() > before:
                before, last = requested(), number
        done |= waiting.keys()
        waiting = {batch: None for batch in choices(limits) if batch not in done}
    ran = f"{len(done)} batches ran, and {f'number {last} was the last with a new key' if last else 'had no new key'}"
    say(f"{before} keys: {started} of the engine's start, {before - started} of batches ({ran})")


class Requests:
    """Requests to the engine. They ask for nothing but numbers of tokens: earlier ones come from its prefix cache."""

    def __init__(self, engine: Any, config: Any) -> None:
        self._engine = engine
        self._new = itertools.cycle(range(2, config.model_config.get_vocab_size()))
        self._chunk = config.scheduler_config.max_num_batched_tokens
        self._remembers = engine.request_block_hasher is not None
        self._names = map(str, itertools.count())

    def form(self, batch: Batch) -> None:
        """Have the scheduler form a batch. Without a prefix cache earlier tokens are computed first; not too many."""
        if not self._remembers and batch.context * batch.requests > 16 * self._chunk:
            return
        try:
            if batch.context and batch.new > 1:
                self._add(batch.context, 0, 1)
                self._run()
            for _ in range(batch.decoding):
                self._add(0, 1, 8)
            self._run(steps=4 if batch.decoding else 0)
            for _ in range(batch.requests):
                self._add(batch.context, batch.new if batch.new > 1 or not batch.context else 0, 2)
            self._run()
        except Exception:
            (self._engine.batch_queue or []).clear()
            self._engine.abort_requests([*self._engine.scheduler.requests])
            raise

    def _add(self, context: int, new: int, answered: int) -> None:
        sampling = importlib.import_module("vllm").SamplingParams(max_tokens=answered, ignore_eos=True, temperature=0.0)
        request = importlib.import_module("vllm.v1.request").Request
        tokens = [1] * context + [next(self._new)] * new
        self._engine.add_request(
            request(next(self._names), tokens, sampling, None, block_hasher=self._engine.request_block_hasher)
        )

    def _run(self, steps: int | None = None) -> None:
        """Some steps of the engine, or all that its requests need."""
        for _ in itertools.count() if steps is None else range(steps):
            if not self._engine.scheduler.has_requests():
                break
            self._engine.step_fn()


if __name__ == "__main__":
    main()
