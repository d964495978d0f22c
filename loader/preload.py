"""Preloading: everything that a first request would wait for, done at start-up, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Union

from precast.loader.api import get
from precast.loader.errors import ConfigError
from precast.loader.kernel import Kernel
from precast.loader.trace import flow

Wish = Union[str, "tuple[str, Mapping[str, object]]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One kernel that was preloaded, and the seconds it took."""

    kernel: Kernel
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Preload:
    """What a preload did; ``print`` it to read it."""

    loaded: tuple[Loaded, ...]
    seconds: float

    def __str__(self) -> str:
        head = f"{len(self.loaded)} kernels in {self.seconds * 1e3:.1f} ms"
        return "\n".join([head, *(f"  {one.seconds * 1e3:8.2f} ms  {_name(one.kernel)}" for one in self.loaded)])


def preload(requests: Iterable[Wish], *, device: object = None, target: str | None = None) -> Preload:
    """Load many variants at once, so that no request waits for one later.

    Parameters
    ----------
    requests
        Each the name of an op, or a pair of an op and a config.
    device, target
        As for ``get``.

    Returns
    -------
    Preload
        The kernels in the order of the requests, with the time that each took and that all took.

    Examples
    --------
    >>> from precast import loader
    >>> done = loader.preload([("scale", {"dtype": "float32"}), ("scale", {"dtype": "bf16"})], target="sm_90a")
    >>> len(done.loaded)
    2

    See also: ``get``.
    """
    start = time.perf_counter()
    loaded = []
    for request in requests:
        before = time.perf_counter()
        kernel = get(*_split(request), device=device, target=target)
        loaded.append(Loaded(kernel=kernel, seconds=time.perf_counter() - before))
    return Preload(loaded=tuple(loaded), seconds=time.perf_counter() - start)


def _split(request: object) -> tuple[str, Mapping[str, object]]:
    if isinstance(request, str):
        return request, {}
    if isinstance(request, tuple) and len(request) == 2 and isinstance(request[0], str):
        return request
    raise ConfigError(f"{request!r} is not a request: give the name of an op, or a pair (op, config)")


def _name(kernel: Kernel) -> str:
    return f"{kernel.op} {flow(kernel.config)} {kernel.target}"
