"""What a program calls: get, explain, ops, variants, caches. The state of the process is here, and only here."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from precast.loader import session
from precast.loader.errors import CacheError, ConfigError, NoCudaDevice, OpNotFound, PrecastError, VariantNotFound
from precast.loader.fast_start.values import Immutable
from precast.loader.fork_safe import ForkSafeLock, OnceTable
from precast.loader.format.artifact import Artifact
from precast.loader.format.config import flow, suggest
from precast.loader.format.target import Target
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.kernel import Kernel, open_kernel
from precast.loader.resolve import driver
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp, Candidate, Request
from precast.loader.resolve.choose import choose
from precast.loader.resolve.discover import VARIABLE, Found, discover
from precast.loader.resolve.machine import Machine, this_host, this_machine
from precast.loader.resolve.pins import Pins, check_pins

if TYPE_CHECKING:
    from precast.loader.resolve.resolution import Resolution

_SHOWN = 300  # lines of a message; beyond that, candidates are in the error's resolution
_REMEMBERED = 100_000
_SIMPLE = (str, int, float, bool, type(None))

_found: tuple[Found, ...] | None = None
_pins: Pins | None = None
_finding = ForkSafeLock()
_kernels: OnceTable[tuple[Any, ...], Kernel] = OnceTable()
_ready: dict[tuple[Any, ...], Kernel] = {}


def get(
    op: str,
    config: Mapping[str, object] | None = None,
    *,
    device: object = None,
    target: str | None = None,
    problem: Mapping[str, int] | None = None,
) -> Kernel:
    """Find, check and load the variant of an op that serves a config on a device.

    Parameters
    ----------
    op
        The op's name; ``loader.ops()`` lists them.
    config
        The compile-time constants. Keys with a default may be left out. A tuned key that is given is pinned; those
        that are left out are chosen by the loader. dtypes may be ``torch.bfloat16`` or any usual name.
    device
        An int, ``"cuda:1"`` or a ``torch.device``; the current device if None.
    target
        Resolve for an architecture, such as ``"sm_90a"``, in place of a device. No GPU is needed up to the launch.
    problem
        The size at hand, for a choice among tuned variants by measurements, where a cache holds any.

    Returns
    -------
    Kernel
        A callable: ``kernel(*tensors)`` launches on the caller's current stream.

    Examples
    --------
    >>> from precast import loader
    >>> kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    >>> print(kernel.signature)
    (x: bfloat16[n], y: bfloat16[n], factor: float32)

    See also: ``explain`` for the decision, ``preload`` for many at once.
    """
    try:
        items = tuple(config.items()) if config else ()
        sizes = tuple(problem.items()) if problem else None
        key = (op, device, target, sizes, items, tuple([type(value) for _, value in items]))
        return _ready[key]
    except (KeyError, TypeError):  # not asked for before, or a list in the config
        pass
    found = obtain(op, config or {}, device, target, problem)
    if found.lasting and len(_ready) < _REMEMBERED and all(_is_simple(value) for value in (config or {}).values()):
        _ready[key] = found.kernel
    return found.kernel


def explain(
    op: str,
    config: Mapping[str, object] | None = None,
    *,
    device: object = None,
    target: str | None = None,
    problem: Mapping[str, int] | None = None,
) -> Resolution:
    """Make the decision that ``get`` would make, and load nothing.

    Parameters
    ----------
    op, config, device, target, problem
        As for ``get``.

    Returns
    -------
    Resolution
        ``.chosen``, ``.accepted`` and ``.rejected`` hold every candidate; ``print`` it to read why.

    Examples
    --------
    >>> from precast import loader
    >>> print(loader.explain("scale", {"dtype": "float32"}, target="sm_90a").chosen.target)
    sm_90a

    See also: ``get``, ``variants``.
    """
    request = Request(op=op, config=config or {}, problem=_checked(problem))
    sources, notes = _sources(op, caches())
    return _resolve(request, _machine(device, target), sources, notes=notes)


def ops() -> tuple[str, ...]:
    """List the ops of every cache, sorted.

    Examples
    --------
    >>> from precast import loader
    >>> "scale" in loader.ops()
    True

    See also: ``variants`` for what an op is built for.
    """
    return tuple(sorted({op for found in caches() if found.index for op in found.index.ops}))


def variants(op: str) -> tuple[Candidate, ...]:
    """List every artifact of an op, with the cache it is in, the preferred caches first.

    Parameters
    ----------
    op
        The op's name.

    Examples
    --------
    >>> from precast import loader
    >>> sorted({str(v.target) for v in loader.variants("scale")})
    ['sm_100a', 'sm_90a']

    See also: ``ops``, ``explain``.
    """
    sources, _ = _sources(op, caches())
    return tuple(Candidate(source, artifact) for source in sources for artifact in source.op.artifacts)


def caches(*, refresh: bool = False, pins: Mapping[str, str] | None = None) -> tuple[Found, ...]:
    """List the caches in the order they are asked, the broken ones with their error.

    Parameters
    ----------
    refresh
        Look again at ``PRECAST_CACHE_PATH`` and the installed wheels. Kernels that were handed out stay good.
    pins
        The SHA-256 that each cache's ``index.json`` must have, by the name of the cache, from now on: other caches are
        refused. This looks again, and goes before ``PRECAST_PIN``.

    Examples
    --------
    >>> from precast import loader
    >>> all(found.error is None for found in loader.caches())
    True

    See also: ``ops``.
    """
    global _found, _pins
    with _finding:
        if pins is not None:
            _pins = check_pins(pins.items())
        if _found is None or refresh or pins is not None:
            _ready.clear()
            _found = None  # what was found before must not outlive a look that fails
            _found = discover(pins=_pins)
        return _found


class Obtained(Immutable):
    """A kernel, the cache it is from, and whether the same call has the same answer for the rest of this process."""

    kernel: Kernel
    cache: Cache
    lasting: bool


def obtain(
    op: str, config: Mapping[str, object], device: object, target: str | None, problem: Mapping[str, int] | None
) -> Obtained:
    """What ``get`` does for a request that it does not remember."""
    start, missed = time.perf_counter(), True
    try:
        places = caches()
        chosen, machine = _choose(Request(op=op, config=config, problem=_checked(problem)), device, target, places)
        missed = False
        cache = places[chosen.source.precedence].cache
        assert cache is not None  # a source is made of an opened cache
        number = None if device is None or machine.device is None else machine.device.ordinal
        kernel = _kernels.get((cache, chosen.artifact.key, number), lambda: _open(cache, op, chosen.artifact, number))
        settled = target is not None or device is not None or driver.driver().uniform
        return Obtained(kernel, cache, settled)
    finally:
        session.count(lookups=1, misses=missed, seconds=time.perf_counter() - start)


def _choose(
    request: Request, device: object, target: str | None, places: tuple[Found, ...]
) -> tuple[Candidate, Machine]:
    machine = _machine(device, target)
    sources, notes = _sources(request.op, places)
    if request.problem is None:
        chosen = choose(request, machine, sources)
    else:
        chosen = _resolve(request, machine, sources, full=False).chosen
    if chosen is None:
        raise _refusal(_resolve(request, machine, sources, notes=notes))
    return chosen, machine


def _resolve(
    request: Request, machine: Machine, sources: list[CachedOp], *, full: bool = True, notes: tuple[str, ...] = ()
) -> Resolution:
    """The whole decision. A lookup that finds what it looks for does with ``choose``."""
    with IMPORT_LOCK:
        from precast.loader.resolve.resolution import resolve
    return resolve(request, machine, sources, full=full, notes=notes)


def _open(cache: Cache, op: str, artifact: Artifact, number: int | None) -> Kernel:
    session.check_thawed(lambda: f"{op} {flow(artifact.config)} for {artifact.target}")
    kernel = open_kernel(cache, op, artifact, number)
    session.count(loads=1, stored=artifact.blob.stored)
    return kernel


def _refusal(resolution: Resolution) -> PrecastError:
    machine = resolution.machine
    if machine.capability is None:
        return NoCudaDevice(
            f"{resolution.request.op}: there is no CUDA device: {machine.absent}. Run this where there is one, or give"
            " target='sm_90a' or the like to resolve for an architecture"
        )
    with IMPORT_LOCK:
        from precast.loader.resolve.explanation import render
    return VariantNotFound(f"no variant fits\n{render(resolution, _SHOWN)}", resolution)


def _machine(device: object, target: str | None) -> Machine:
    if target is None:
        return this_machine(device)
    if device is not None:
        raise ConfigError("device and target exclude each other: give the one to resolve for")
    return this_host().supposing(Target.parse(target))


def _sources(op: str, places: tuple[Found, ...]) -> tuple[list[CachedOp], tuple[str, ...]]:
    """The op in every cache that has it, and a note for each cache that cannot be read."""
    sources, errors = [], [found.error for found in places if found.error]
    damage: CacheError | None = None
    for precedence, found in enumerate(places):
        if found.cache is not None and op in found.cache.index.ops:
            try:
                listed = found.cache.op(op)
            except CacheError as error:
                damage = error
                errors.append(error)
                continue
            sources.append(CachedOp(cache=found.name, precedence=precedence, index=found.cache.index, op=listed))
    if not sources:
        raise damage or _unknown(op, places)
    return sources, tuple(f"a cache was left out: {error}" for error in errors)


def _unknown(op: str, places: tuple[Found, ...]) -> OpNotFound:
    known = {name for found in places if found.index for name in found.index.ops}
    looked = "".join(f"\n  {found}" for found in places) or "\n  none"
    return OpNotFound(
        f"no cache holds op {op!r}{suggest(str(op), known)}\ncaches looked at:{looked}\n"
        f"Install the cache wheel that has the op, or name its directory in {VARIABLE}"
    )


def _checked(problem: Mapping[str, int] | None) -> Mapping[str, int] | None:
    if problem is None:
        return None
    if not isinstance(problem, Mapping) or not all(
        isinstance(name, str) and type(size) is int and size >= 0 for name, size in problem.items()
    ):
        raise ConfigError(f"{problem!r} is not a problem: give sizes by name, such as {{'m': 4096}}")
    return dict(problem)


def _is_simple(value: object) -> bool:
    """Whether equal values of equal type are the same config value, so that one may stand for the other."""
    return type(value) in _SIMPLE or (type(value).__module__ == "torch" and "torch" in sys.modules)
