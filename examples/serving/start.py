"""The start: kernels are loaded, weights made, every kernel called once, and then nothing more is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TypeVar

from serving.engine import Engine
from serving.metrics import Metric
from serving.model import Model
from serving.service import Service, loader_metrics
from serving.warm_up import steps

T = TypeVar("T")
LIBRARIES = ("quack", "flash_attention")
_TRIES = 5  # of reading a cache that is replaced at this moment


def _nothing() -> None:
    pass


def _no_metrics() -> list[Metric]:
    return []


@dataclass(frozen=True)
class Kind:
    """Where the kernels come from."""

    model: Callable[[], Model]
    imports: Callable[[], None]
    preload: Callable[[], None] = _nothing
    freeze: Callable[[], None] = _nothing
    metrics: Callable[[], list[Metric]] = _no_metrics


def start(kind: Kind, *, lazy: bool = False) -> Service:
    """A service that is ready to listen; ``lazy`` leaves to the first requests what they need."""
    phases: dict[str, float] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        done = work()
        phases[name] = time.perf_counter() - began
        return done

    timed("imports", kind.imports)
    if not lazy:
        timed("preload", kind.preload)
    model = timed("model", kind.model)
    if not lazy:
        timed("warm-up", lambda: warm_up(model))
        kind.freeze()
    return Service(Engine(model), model.shape, phases, kind.metrics)


def warm_up(model: Model) -> None:
    """Call every kernel once, and wait for it: the first calls of the libraries import and set up what they need."""
    for step in steps(model.shape, model.device):
        model.step(step).tolist()


def _import_libraries() -> None:
    import quack
    import quack.gemm_interface  # noqa: F401


def _attach_and_import() -> None:
    from precast import loader

    loader.attach(LIBRARIES, mode="frozen", without_compiler=find_spec("cutlass") is None)
    _import_libraries()


def preload() -> None:
    """Load every kernel of the caches. A cache that is replaced in the middle is read again from its beginning."""
    from precast import loader

    for left in reversed(range(_TRIES)):
        try:
            for found in loader.caches():
                if found.error is not None:
                    raise found.error
            loader.preload(loader.ops())
            return
        except loader.CacheError:
            if not left:
                raise
            loader.caches(refresh=True)


def _freeze() -> None:
    from precast import loader

    loader.freeze()


def _llama(*, now: bool) -> Model:
    import torch

    from serving.kernels import LibraryKernels, compiled_now, from_cache
    from serving.model import Weights
    from serving.shape import LLAMA

    kernels = LibraryKernels(LLAMA, compiled_now if now else from_cache)
    return Model(LLAMA, kernels, "cuda", Weights.random(LLAMA, "cuda", torch.bfloat16))


def _small() -> Model:
    import torch

    from serving.model import Weights
    from serving.shape import SMALL
    from serving.torch_kernels import TorchKernels

    return Model(SMALL, TorchKernels(SMALL), "cpu", Weights.random(SMALL, "cpu", torch.float32))


KINDS: Mapping[str, Kind] = {
    "cache": Kind(
        lambda: _llama(now=False), _attach_and_import, preload=preload, freeze=_freeze, metrics=loader_metrics
    ),
    "compile": Kind(lambda: _llama(now=True), _import_libraries),
    "torch": Kind(_small, _nothing),
}
