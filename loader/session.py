"""Sessions: all that a process keeps of its caches and of what it loaded from them, in one object.

``loader.get`` and the other functions of ``precast.loader`` serve the default session. A test, or a program that wants
two sets of caches apart, makes a ``Session`` of its own, and calls its methods or makes it the default with ``use``.

>>> from precast import loader
>>> from precast.loader import session
>>> before = session.use(session.Session(search=""))
>>> "scale" in loader.ops()
False
>>> _ = session.use(before)

Some tables belong to the process, not to a session: those of the dynamic linker, of the CUDA driver and of PyTorch's
operators. Two sessions that open the same bytes may share one library; they cannot open two runtime libraries of one
name, nor register two operators of one name.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import CacheError, ConfigError, Frozen
from precast.loader.fast_start.installed import Installed
from precast.loader.fork_safe import ForkSafeLock, OnceTable
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.machine.machine import Machine, Machines
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp, Candidate, Request
from precast.loader.resolve.choose import choose
from precast.loader.resolve.discover import Caches, Ops, discover

if TYPE_CHECKING:
    from precast.loader.counts import Stats
    from precast.loader.launch.torch_op import Operators
    from precast.loader.resolve.by_problem import Decisions
    from precast.loader.resolve.pins import Pins
    from precast.loader.resolve.resolution import Resolution
    from precast.loader.watch.watch import Watch

_REMEMBERED = 100_000
_SIMPLE = (str, int, float, bool, type(None))


class Lookup(Immutable):
    """A kernel, the cache it is from, and whether the same call gives the same kernel for the rest of the session."""

    kernel: Kernel
    cache: Cache
    repeatable: bool


class Session:
    """A set of caches, the machine they are used on, and what was loaded.

    Parameters
    ----------
    search
        Directories of caches, as in ``PRECAST_CACHE_PATH``, which is read if None.
    machines
        This host and its devices; a test describes another machine.
    installed
        The installed distributions, among which wheels of caches are searched for.
    opener
        What opens kernels.
    """

    def __init__(
        self,
        search: str | None = None,
        *,
        machines: Machines | None = None,
        installed: Installed | None = None,
        opener: KernelOpener | None = None,
    ) -> None:
        self.installed = installed or Installed()
        self.machines = machines or Machines(installed=self.installed)
        self.opener = opener or KernelOpener(self.machines.on)
        self.frozen = False
        self.watch = _watch(self.machines)
        # by the arguments of ``get``
        self.remembered: dict[tuple[Any, ...], Kernel] = {} if self.watch is None else self.watch.kernels()
        self.warm: set[tuple[str, int]] = set()  # artifacts, by key, and devices that ``preload`` made CUDA ready for
        self._search = search
        self._pins: Pins | None = None
        self._decided: Decisions | None = None  # by the arguments of ``get``, but for its problem
        self._caches: Caches | None = None
        self._discovering = ForkSafeLock()
        self._kernels = OnceTable()
        self._operators = OnceTable()
        self._counts: list[Any] = [0, 0, 0, 0, 0.0]
        self._counting = ForkSafeLock()

    def caches(self, *, refresh: bool = False, pins: Mapping[str, str] | None = None) -> Caches:
        """See ``loader.caches``."""
        with self._discovering:
            if pins is not None:
                with IMPORT_LOCK:
                    from precast.loader.resolve.pins import check_pins
                self._pins = check_pins(pins.items())
            if self._caches is None or refresh or pins is not None:
                self.remembered.clear()
                self._decided = None
                self._caches = None  # if the search fails, the next call searches again
                self._caches = discover(self._search, self._pins, self.installed)
                if self.watch is not None:
                    self.watch.found_caches(self._caches)
            return self._caches

    def ops(self) -> Ops:
        """See ``loader.ops``."""
        return Ops.of(self.caches())

    def explain(
        self,
        op: str,
        config: Mapping[str, object] | None = None,
        *,
        device: object = None,
        target: str | None = None,
        problem: Mapping[str, int] | None = None,
        verified: bool = False,
    ) -> Resolution:
        """See ``loader.explain``."""
        request = _request(op, config, problem, verified)
        sources, notes = self.sources(op)
        return _resolve(request, self.machine(device, target), sources, notes=notes)

    def lookup(
        self,
        op: str,
        config: Mapping[str, object] | None = None,
        *,
        device: object = None,
        target: str | None = None,
        problem: Mapping[str, int] | None = None,
        verified: bool = False,
    ) -> Lookup:
        """Find, check and load the variant that ``get`` returns, whether or not it was asked for before."""
        find = lambda: self._choose(_request(op, config, problem, verified), device, target)  # noqa: E731
        if self.watch is None:
            return self._counted(device, target, find)
        return self._watched(self.watch, find, op, config, device, target, problem, verified)

    def load(self, candidate: Candidate, device: object, target: str | None) -> Lookup:
        """Load a candidate of this session's caches."""
        return self._counted(device, target, lambda: (candidate, self.machine(device, target)))

    def remember(self, key: tuple[Any, ...], config: Mapping[str, object], found: Lookup) -> None:
        """Keep a kernel for the same call of ``get``."""
        if found.repeatable and len(self.remembered) < _REMEMBERED and all(map(_is_simple, config.values())):
            self.remembered[key] = found.kernel

    def machine(self, device: object, target: str | None) -> Machine:
        """The machine to resolve for."""
        if target is None:
            return self.machines.on(device)
        if device is not None:
            raise ConfigError("device and target exclude each other: give the one to resolve for")
        return self.machines.for_target(target)

    def sources(self, op: str) -> tuple[list[CachedOp], tuple[str, ...]]:
        """The op in every cache that has it, and a note for each cache that cannot be read."""
        if not isinstance(op, str):
            raise ConfigError(f"{op!r} is not the name of an op: loader.ops() lists them")
        places = self.caches()
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
            with IMPORT_LOCK:
                from precast.loader.resolve.not_found import unknown_op
            raise damage or unknown_op(op, places)
        return sources, tuple(f"a cache was left out: {error}" for error in errors)

    @property
    def operators(self) -> Operators:
        """The kernels that were registered with PyTorch."""
        with IMPORT_LOCK:
            from precast.loader.launch.torch_op import Operators
        return self._operators.get("", Operators)

    @property
    def stats(self) -> Stats:
        """See ``loader.stats``."""
        with IMPORT_LOCK:
            from precast.loader.counts import Stats
        with self._counting:
            lookups, misses, loads, stored, seconds = self._counts
        return Stats(lookups=lookups, misses=misses, loads=loads, stored=stored, seconds=seconds)

    def _counted(self, device: object, target: str | None, find: Callable[[], tuple[Candidate, Machine]]) -> Lookup:
        """Load what a search finds, and count it."""
        start, missed = time.perf_counter(), True
        try:
            chosen, machine = find()
            missed = False
            cache = self.caches()[chosen.source.precedence].cache
            assert cache is not None  # every source is of an opened cache
            number = None if device is None or machine.device is None else machine.device.ordinal
            key = (cache, chosen.artifact.key, number)
            kernel = self._kernels.get(key, lambda: self._open(cache, chosen.source.op.op, chosen.artifact, number))
            return Lookup(kernel, cache, target is not None or device is not None or self.machines.any_like(machine))
        finally:
            self._count(lookups=1, misses=missed, seconds=time.perf_counter() - start)

    def _watched(
        self,
        watch: Watch,
        find: Callable[[], tuple[Candidate, Machine]],
        op: str,
        config: Mapping[str, object] | None,
        device: object,
        target: str | None,
        problem: Mapping[str, int] | None,
        verified: bool,
    ) -> Lookup:
        """A lookup that is told of, however it ends."""
        with IMPORT_LOCK:
            from precast.loader.watch.watch import Asked, Outcome
        asked = Asked(
            op=op,
            config=config,
            device=device,
            target=target,
            problem=problem,
            verified=verified,
            machine=lambda: self.machine(device, target),
            explain=lambda: self.explain(op, config, device=device, target=target, problem=problem, verified=verified),
        )
        try:
            found = self._counted(device, target, find)
        except Exception as error:
            watch.resolved(asked, Outcome(error=error))
            raise
        watch.resolved(asked, Outcome(found.kernel, found.cache))
        return found

    def _choose(self, request: Request, device: object, target: str | None) -> tuple[Candidate, Machine]:
        sources, notes = self.sources(request.op)  # it lists the installed distributions, which the machine reuses
        machine = self.machine(device, target)
        if request.problem is None:
            chosen = choose(request, machine, sources)
        else:
            alone = replace(request, problem=None)
            found = self._decisions().of(request, machine, lambda: _resolve(alone, machine, sources, full=False))
            chosen, machine = found.chosen, found.machine
        if chosen is None:
            with IMPORT_LOCK:
                from precast.loader.resolve.not_found import refuse
            refuse(_resolve(request, machine, sources, notes=notes))
        return chosen, machine

    def _decisions(self) -> Decisions:
        if self._decided is None:
            with IMPORT_LOCK:
                from precast.loader.resolve.by_problem import Decisions
            self._decided = Decisions()
        return self._decided

    def _open(self, cache: Cache, op: str, artifact: Artifact, number: int | None) -> Kernel:
        if self.frozen:
            name = f"{op} {config_text(artifact.config)} for {artifact.target}"
            raise Frozen(f"{name} is not loaded, and loader.freeze() was called: preload it before, or do not freeze")
        start = time.perf_counter()
        kernel = self.opener.open(cache, op, artifact, number)
        self._count(loads=1, stored=artifact.blob.stored)
        return kernel if self.watch is None else self.watch.opened(kernel, cache, time.perf_counter() - start)

    def _count(self, lookups: int = 0, misses: int = 0, loads: int = 0, stored: int = 0, seconds: float = 0.0) -> None:
        with self._counting:
            for place, more in enumerate((lookups, misses, loads, stored, seconds)):
                self._counts[place] += more


def _watch(machines: Machines) -> Watch | None:
    """What watches a session, by the variables. Without any of them nothing is imported."""
    if not any(map(os.environ.get, ("PRECAST_LOG", "PRECAST_DUMP", "PRECAST_REQUESTS"))):
        return None
    with IMPORT_LOCK:
        from precast.loader.watch.watch import Watch
    return Watch.of(os.environ, machines.driver.get)


default = Session()


def current_session() -> Session:
    """The session that ``loader.get`` and the other functions serve.

    >>> from precast import loader
    >>> loader.current_session().frozen
    False
    """
    return default


def use(session: Session) -> Session:
    """Make a session the default one; returns the one that was."""
    global default
    before, default = default, session
    return before


def _resolve(
    request: Request, machine: Machine, sources: list[CachedOp], *, full: bool = True, notes: tuple[str, ...] = ()
) -> Resolution:
    """The whole decision, imported when needed: a lookup that succeeds needs only ``choose``."""
    with IMPORT_LOCK:
        from precast.loader.resolve.judge import resolve
    return resolve(request, machine, sources, full=full, notes=notes)


def _request(
    op: str, config: Mapping[str, object] | None, problem: Mapping[str, int] | None, verified: bool
) -> Request:
    """The arguments of a caller, checked."""
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(
            f"{config!r} is not a config: give each value by the name of its key, such as"
            f" loader.get({op!r}, {{'dtype': 'bfloat16'}})"
        )
    if problem is not None and (
        not isinstance(problem, Mapping)
        or not all(isinstance(name, str) and type(size) is int and size >= 0 for name, size in problem.items())
    ):
        raise ConfigError(f"{problem!r} is not a problem: give sizes by name, such as {{'m': 4096}}")
    return Request(
        op=op, config=config or {}, problem=None if problem is None else dict(problem), verified=bool(verified)
    )


def _is_simple(value: object) -> bool:
    """Whether equal values of equal type are the same config value, so that one may stand for the other."""
    return type(value) in _SIMPLE or (type(value).__module__ == "torch" and "torch" in sys.modules)
