"""Preloading: everything that a first request would wait for, done at start-up, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Union

from precast.loader.api import Obtained, obtain
from precast.loader.errors import ConfigError
from precast.loader.fast_start.values import Immutable
from precast.loader.format.config import flow
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.library import load
from precast.loader.launch.warm_up import NotWarmedUp, warm_up
from precast.loader.resolve.driver import NoDriver, find_device

Wish = Union[str, "tuple[str, Mapping[str, object]]", "tuple[str, Mapping[str, object], Mapping[str, int]]"]


class Loaded(Immutable, kw_only=True):
    """One kernel that was preloaded, the seconds it took, and why CUDA may have work left for its first call.

    ``lazy`` is empty where it has none.
    """

    kernel: Kernel
    seconds: float
    lazy: str = ""


class Preload(Immutable, kw_only=True):
    """What a preload did; ``print`` it to read it."""

    loaded: tuple[Loaded, ...]
    seconds: float

    @property
    def ready(self) -> bool:
        """Whether no first call of any of them has work left to do."""
        return not any(one.lazy for one in self.loaded)

    def __str__(self) -> str:
        state = "ready" if self.ready else f"{sum(bool(one.lazy) for one in self.loaded)} not ready for CUDA"
        head = f"{len(self.loaded)} kernels in {self.seconds * 1e3:.1f} ms, {state}"
        return "\n".join([head, *(_line(one) for one in self.loaded)])


def preload(
    requests: Iterable[Wish], *, device: object = None, target: str | None = None, cuda: bool = True
) -> Preload:
    """Load many variants at once and make them ready for CUDA, so that no request waits for anything later.

    Parameters
    ----------
    requests
        Each the name of an op, a pair of an op and a config, or these and a problem.
    device, target
        As for ``get``. On several devices, preload for each.
    cuda
        Whether to make CUDA load the device code, too; with a ``target``, or without a device, it does not.

    Returns
    -------
    Preload
        The kernels in the order of the requests, with the time that each took and that all took. A kernel that CUDA
        could not make ready without a real call says so in ``lazy``; it works all the same.

    Examples
    --------
    >>> from precast import loader
    >>> done = loader.preload([("scale", {"dtype": "float32"}), ("scale", {"dtype": "bf16"})], target="sm_90a")
    >>> len(done.loaded)
    2

    See also: ``get``, ``freeze``, ``stats``.
    """
    start = time.perf_counter()
    wishes = [_split(request) for request in requests]
    reason, ordinal = _device(device, target, cuda)
    loaded = []
    for op, config, problem in wishes:
        before = time.perf_counter()
        found = obtain(op, config, device, target, problem)
        lazy = reason if ordinal is None else _make_ready(found, ordinal)
        if ordinal is not None:
            found.kernel.admit()
        loaded.append(Loaded(kernel=found.kernel, seconds=time.perf_counter() - before, lazy=lazy))
    return Preload(loaded=tuple(loaded), seconds=time.perf_counter() - start)


def _device(device: object, target: str | None, cuda: bool) -> tuple[str, int | None]:
    """The device to make ready for, or why there is none."""
    if not cuda:
        return "this was not asked for (cuda=False)", None
    if target is not None:
        return f"it was resolved for {target}, not for a device", None
    try:
        return "", find_device(device).ordinal
    except NoDriver as reason:
        return str(reason), None


_ready: set[tuple[str, int]] = set()


def _make_ready(found: Obtained, ordinal: int) -> str:
    artifact = found.kernel.artifact
    if (artifact.key, ordinal) in _ready:
        return ""
    launcher = found.kernel.launcher
    if launcher is not None:
        launcher.ready(ordinal)
        _ready.add((artifact.key, ordinal))
        return ""
    try:
        warm_up(load(found.cache, artifact).address(artifact.symbol), artifact.signature, ordinal)
    except NotWarmedUp as reason:
        return str(reason)
    _ready.add((artifact.key, ordinal))
    return ""


def _split(request: object) -> tuple[str, Mapping[str, object], Mapping[str, int] | None]:
    if isinstance(request, str):
        return request, {}, None
    if isinstance(request, tuple) and len(request) in (2, 3) and isinstance(request[0], str):
        return request[0], request[1], request[2] if len(request) == 3 else None
    raise ConfigError(
        f"{request!r} is not a request: give the name of an op, or a pair (op, config), or (op, config, problem)"
    )


def _line(one: Loaded) -> str:
    kernel = one.kernel
    name = f"{kernel.op} {flow(kernel.config)} {kernel.target}"
    return f"  {one.seconds * 1e3:8.2f} ms  {name}{': ' if one.lazy else ''}{one.lazy}"
