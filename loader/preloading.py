"""Preloading: everything that a first request would wait for, done at start-up, with its times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Union

from precast.loader import session
from precast.loader.contract.format.config import canonical, config_text, to_json
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import ConfigError
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.warm_up import NotWarmedUp, warm_up
from precast.loader.locks import IMPORT_LOCK
from precast.loader.machine.driver import NoDriver
from precast.loader.resolve.candidate import Request, Verified, checked_verified
from precast.loader.session import Lookup, Session

PreloadRequest = Union[str, "tuple[str, Mapping[str, object]]", "tuple[str, Mapping[str, object], Mapping[str, int]]"]


class Loaded(Immutable, kw_only=True):
    """One kernel that was preloaded, the seconds it took, and why CUDA may still have work at its first call.

    ``lazy`` is empty where it has none.
    """

    kernel: Kernel
    seconds: float
    lazy: str = ""


class Preload(Immutable, kw_only=True):
    """The result of a preload; ``print`` it to read it."""

    loaded: tuple[Loaded, ...]
    seconds: float

    @property
    def ready(self) -> bool:
        """Whether no kernel has work left for its first call."""
        return not any(each.lazy for each in self.loaded)

    def __str__(self) -> str:
        state = "ready" if self.ready else f"{sum(bool(each.lazy) for each in self.loaded)} not ready for CUDA"
        kernels = "1 kernel" if len(self.loaded) == 1 else f"{len(self.loaded)} kernels"
        head = f"{kernels} in {self.seconds * 1e3:.1f} ms, {state}"
        return "\n".join([head, *(_line(each) for each in self.loaded)])

    def __repr__(self) -> str:
        return str(self)


def preload(
    requests: str | Iterable[PreloadRequest],
    *,
    device: object = None,
    target: str | None = None,
    cuda: bool = True,
    verified: Verified = False,
) -> Preload:
    """Load many variants at once and make them ready for CUDA, so that no request waits for anything later.

    Parameters
    ----------
    requests
        Each the name of an op, for every variant of it that fits the device or the target; or a pair of an op and a
        config, or these and a problem, for the one that ``get`` takes. One name of an op may stand alone.
    device, target
        As for ``get``. On several devices, preload for each.
    cuda
        Whether to make CUDA load the device code, too; with a ``target``, or without a device, it does not.
    verified
        As for ``get``; of an op's variants, those that were not verified are left out.

    Returns
    -------
    Preload
        The kernels in the order of the requests, with the time that each took and that all took. A kernel that CUDA
        could not make ready without a real call has the reason in ``lazy``; it works nevertheless.

    Examples
    --------
    >>> from precast import loader
    >>> done = loader.preload([("scale", {"dtype": "float32"}), ("scale", {"dtype": "bf16"})], target="sm_90a")
    >>> len(done.loaded)
    2
    >>> len(loader.preload("scale", target="sm_90a").loaded)  # three dtypes, two tunings each
    6

    See also: ``get``, ``freeze``, ``stats``.
    """
    into = session.default
    start = time.perf_counter()
    template = Request(op="", device=device, target=target, verified=checked_verified(verified))
    checked = [_checked(request) for request in _listed(requests)]
    reason, ordinal = _device(into, template, cuda)
    loaded = []
    with ExitStack() as folders:
        for discovered in into.caches() if checked else ():
            if discovered.cache is not None:
                folders.enter_context(discovered.cache.many_blobs())
        for load in (load for request in checked for load in _loads(into, request, template)):
            before = time.perf_counter()
            lookup = load()
            lazy = reason if ordinal is None else _make_ready(into, lookup, ordinal)
            if ordinal is not None:
                lookup.kernel.check_device()
            loaded.append(Loaded(kernel=lookup.kernel, seconds=time.perf_counter() - before, lazy=lazy))
    return Preload(loaded=tuple(loaded), seconds=time.perf_counter() - start)


def _listed(requests: object) -> Iterable[object]:
    if isinstance(requests, str):
        return [requests]
    if isinstance(requests, Mapping) or not isinstance(requests, Iterable):
        raise ConfigError(
            f"{requests!r} is not a list of requests: write loader.preload(['scale']) for every variant of an op, or"
            " loader.preload([('scale', {'dtype': 'bfloat16'})]) for one"
        )
    return requests


def _checked(request: object) -> PreloadRequest:
    if isinstance(request, str):
        return request
    if isinstance(request, tuple) and len(request) in (2, 3) and isinstance(request[0], str):
        return request
    raise ConfigError(
        f"{request!r} is not a request: give the name of an op, or a pair (op, config), or (op, config, problem)"
    )


def _loads(into: Session, request: PreloadRequest, template: Request) -> Iterator[Callable[[], Lookup]]:
    """Functions that each load one kernel of a request, for the device or the target of a template."""
    if not isinstance(request, str):
        op, config, problem = (*request, None)[:3]
        checked = Request(
            op=op,
            config={} if config is None else config,
            device=template.device,
            target=template.target,
            problem=problem,
            verified=template.verified,
            memo_key=None,
        )
        yield lambda: into.lookup(checked)
        return
    sources, notes = into.sources(request)
    machine = into.machine(template)
    with IMPORT_LOCK:
        from precast.loader.resolve.judge import resolve_every
    resolution = resolve_every(request, machine, sources, notes=notes, verified=template.verified)
    if resolution.chosen is None:
        with IMPORT_LOCK:
            from precast.loader.resolve.not_found import refuse
        refuse(resolution)
    seen: set[bytes] = set()
    for candidate in (accepted.candidate for accepted in resolution.accepted):
        config_id = canonical({name: to_json(value) for name, value in candidate.config.items()})
        if config_id not in seen:  # the first of one config is the one that ``get`` takes
            seen.add(config_id)
            if len(sources) > 1:
                into.check_order(replace(template, op=request, config=candidate.config), machine, sources, candidate)
            yield lambda candidate=candidate: into.load(candidate, template)  # type: ignore[misc]


def _device(into: Session, request: Request, cuda: bool) -> tuple[str, int | None]:
    """The device to make ready for, or why there is none."""
    if not cuda:
        return "preload was called with cuda=False", None
    if request.target is not None:
        return f"it was resolved for {request.target}, not for a device", None
    try:
        return "", into.machines.driver.find(request.device).ordinal
    except NoDriver as reason:
        return str(reason), None


def _make_ready(into: Session, lookup: Lookup, ordinal: int) -> str:
    """Do what the kernel's first launch on a device would do; returns the reason where that is not possible."""
    artifact = lookup.kernel.artifact
    if (artifact.key, ordinal) in into.warm:
        return ""
    launcher = lookup.kernel.launcher
    if launcher is not None:
        launcher.ready(ordinal)
    else:
        entry = into.opener.libraries.load(lookup.cache, artifact).address(artifact.symbol)
        try:
            warm_up(entry, artifact.signature, into.machines.driver.get(), ordinal)
        except NotWarmedUp as reason:
            return str(reason)
    into.warm.add((artifact.key, ordinal))
    return ""


def _line(loaded: Loaded) -> str:
    return (
        f"  {loaded.seconds * 1e3:8.2f} ms  {' '.join(_name(loaded.kernel))}{': ' if loaded.lazy else ''}{loaded.lazy}"
    )


def _name(kernel: Kernel) -> tuple[str, str, str]:
    return kernel.op, config_text(kernel.config), str(kernel.target)
