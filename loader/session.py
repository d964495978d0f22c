"""Sessions: the caches of a process and what it loaded from them, in one object.

``loader.get`` and the other functions of ``precast.loader`` serve the default session. A test, or a program that keeps
two sets of caches apart, makes a ``Session`` of its own and makes it the default with ``use``.

Some tables belong to the process, not to a session: those of the dynamic linker, of the CUDA driver and of PyTorch's
operators. Two sessions that open the same bytes may share one library; they cannot open two runtime libraries of one
name, nor register two operators of one name.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.contract.values import Immutable, replace
from precast.loader.counts import Counter
from precast.loader.errors import ConfigError, Frozen
from precast.loader.fast_start.installed import Installed
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.locks import IMPORT_LOCK, ForkSafeLock, OnceTable
from precast.loader.machine.machine import Machine, Machines
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp, Candidate, Request
from precast.loader.resolve.choose import choose
from precast.loader.resolve.discover import Caches, discover, sources_of

if TYPE_CHECKING:
    from precast.loader.counts import Stats
    from precast.loader.launch.torch_op import Operators
    from precast.loader.resolve.by_problem import Decisions
    from precast.loader.resolve.pins import Pins
    from precast.loader.resolve.resolution import Resolution
    from precast.loader.watch.watch import Watch

_MOST_KEPT = 100_000
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

    Examples
    --------
    >>> from precast import loader
    >>> loader.Session(search="").ops()
    ()
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
        self.watch = _watch()
        self.memo: dict[tuple[Any, ...], Kernel] = {} if self.watch is None else self.watch.memo()  # by ``memo_key``
        self.warm: set[tuple[str, int]] = set()  # artifacts, by key, and devices that ``preload`` made CUDA ready for
        self._search = search
        self._pins: Pins | None = None
        self._order: tuple[str, ...] | None = None
        self.disputes: dict[str, str] = {}  # by op: why its kernel may be another one than its caller expects
        self._decided: Decisions | None = None  # by requests without their problem
        self._caches: Caches | None = None
        self._sources: tuple[Caches, dict[str, tuple[list[CachedOp], tuple[str, ...]]]] | None = None  # of the ops
        self._discovering = ForkSafeLock()
        self._kernels = OnceTable()
        self._operators = OnceTable()
        self._counter = Counter()

    def caches(
        self,
        *,
        refresh: bool = False,
        pins: Mapping[str, str] | None = None,
        order: Iterable[str] | None = None,
    ) -> Caches:
        """See ``loader.caches``."""
        with self._discovering:
            if pins is not None:
                with IMPORT_LOCK:
                    from precast.loader.resolve.pins import check_pins
                self._pins = check_pins(pins.items())
            if order is not None:
                self._order = tuple(order)
            if self._caches is None or refresh or pins is not None or order is not None:
                self.memo.clear()
                self.disputes.clear()
                self._decided = None
                self._caches = None  # if the search fails, the next call searches again
                self._caches = discover(self._search, self._pins, self.installed, self._order)
                if self._search is None and any(discovered.absent for discovered in self._caches):
                    _warn_of_absent(self._caches)
                if unknown := self._caches.unknown(self._order):
                    _warn_of_unknown(unknown, self._caches)
                if self.watch is not None:
                    self.watch.discovered(self._caches)
            return self._caches

    def ops(self) -> tuple[str, ...]:
        """See ``loader.ops``."""
        return tuple(sorted({op for discovered in self.caches() if discovered.index for op in discovered.index.ops}))

    def sources(self, op: str) -> tuple[list[CachedOp], tuple[str, ...]]:
        """The op in every cache that has it, and a note for each cache that cannot be read."""
        caches = self.caches()
        if self._sources is None or self._sources[0] is not caches:
            self._sources = caches, {}
        by_op = self._sources[1]
        sources = by_op.get(op) if isinstance(op, str) else None
        if sources is None:
            sources = sources_of(op, caches)
            if not sources[1]:  # a cache that is damaged now may be repaired
                by_op[op] = sources
        return sources

    def machine(self, request: Request) -> Machine:
        """The machine to resolve a request for."""
        if request.target is None:
            return self.machines.on(request.device)
        if request.device is not None:
            raise ConfigError("device and target exclude each other: give the one to resolve for")
        return self.machines.for_target(request.target)

    def explain(self, request: Request) -> Resolution:
        """See ``loader.explain``."""
        request = request.checked()
        sources, notes = self.sources(request.op)
        resolution = _resolve(request, self.machine(request), sources, notes=notes)
        if resolution.chosen is not None and len(sources) > 1:
            with IMPORT_LOCK:
                from precast.loader.resolve.rivals import disagreement
            dispute = disagreement(request, resolution.machine, sources, resolution.chosen)
            resolution = replace(resolution, notes=(*resolution.notes, dispute)) if dispute else resolution
        return resolution

    def get(self, request: Request) -> Kernel:
        """Look a kernel up, and keep it for the same call of ``loader.get``."""
        lookup, key = self.lookup(request), request.memo_key
        if key is not None and lookup.repeatable and len(self.memo) < _MOST_KEPT and _is_simple(request.config):
            self.memo[key] = lookup.kernel
        return lookup.kernel

    def lookup(self, request: Request) -> Lookup:
        """Find, check and load the variant that a request resolves to."""
        find = lambda: self._choose(request.checked())  # noqa: E731
        if self.watch is None:
            return self._load(request, find)
        try:
            lookup = self._load(request, find)
        except Exception as error:
            self.watch.resolved(request, self, error=error)
            raise
        self.watch.resolved(request, self, kernel=lookup.kernel, cache=lookup.cache)
        return lookup

    def load(self, candidate: Candidate, request: Request) -> Lookup:
        """Load a candidate of this session's caches for the device or the target of a request."""
        return self._load(request, lambda: (candidate, self.machine(request)))

    @property
    def operators(self) -> Operators:
        """The kernels that were registered with PyTorch."""
        with IMPORT_LOCK:
            from precast.loader.launch.torch_op import Operators
        return self._operators.get("", Operators)

    @property
    def stats(self) -> Stats:
        """See ``loader.stats``."""
        return self._counter.stats

    def _load(self, request: Request, find: Callable[[], tuple[Candidate, Machine]]) -> Lookup:
        """Load what a search finds, and count it."""
        start, missed = time.perf_counter(), True
        try:
            candidate, machine = find()
            missed = False
            source, artifact = candidate.source, candidate.artifact
            cache = self.caches()[source.precedence].cache
            assert cache is not None  # every source is of an opened cache
            ordinal = None if request.device is None or machine.device is None else machine.device.ordinal
            kernel = self._kernels.get(
                (cache, artifact.key, ordinal), lambda: self._open(cache, source.op.op, artifact, ordinal)
            )
            fixed = request.target is not None or request.device is not None
            return Lookup(kernel, cache, fixed or self.machines.any_like(machine))
        finally:
            self._counter.add(lookups=1, misses=missed, seconds=time.perf_counter() - start)

    def _choose(self, request: Request) -> tuple[Candidate, Machine]:
        sources, notes = self.sources(request.op)  # it lists the installed distributions, which the machine reuses
        machine = self.machine(request)
        if request.problem is None:
            chosen = choose(request, machine, sources)
        else:
            alone = replace(request, problem=None)
            resolution = self._decisions().of(request, machine, lambda: _resolve(alone, machine, sources, full=False))
            chosen, machine = resolution.chosen, resolution.machine
        if chosen is None:
            with IMPORT_LOCK:
                from precast.loader.resolve.not_found import refuse
            refuse(_resolve(request, machine, sources, notes=notes))
        if len(sources) > 1:
            self.check_order(request, machine, sources, chosen)
        return chosen, machine

    def check_order(self, request: Request, machine: Machine, sources: list[CachedOp], chosen: Candidate) -> None:
        """Warn, once for an op, if a cache without an order would serve a request with another kernel than the chosen
        one; once the loader is frozen, that is an error."""
        if request.op not in self.disputes:
            with IMPORT_LOCK:
                from precast.loader.resolve.rivals import disagreement
                from precast.loader.watch.notice import notice
            dispute = disagreement(request, machine, sources, chosen)
            if not dispute:
                return
            if not self.frozen:
                notice(dispute)
            self.disputes[request.op] = dispute
        if self.frozen:
            raise Frozen(self.disputes[request.op])

    def _decisions(self) -> Decisions:
        if self._decided is None:
            with IMPORT_LOCK:
                from precast.loader.resolve.by_problem import Decisions
            self._decided = Decisions()
        return self._decided

    def _open(self, cache: Cache, op: str, artifact: Artifact, ordinal: int | None) -> Kernel:
        if self.frozen:
            name = f"{op} {config_text(artifact.config)} for {artifact.target}"
            raise Frozen(f"{name} is not loaded, and loader.freeze() was called: preload it before, or do not freeze")
        start = time.perf_counter()
        kernel = self.opener.open(cache, op, artifact, ordinal)
        self._counter.add(loads=1, stored=artifact.blob.stored)
        return kernel if self.watch is None else self.watch.opened(kernel, cache, time.perf_counter() - start)


def _watch() -> Watch | None:
    """The watch that the environment turns on; without its variables nothing is imported."""
    if not any(map(os.environ.get, ("PRECAST_LOG", "PRECAST_REQUESTS"))):
        return None
    with IMPORT_LOCK:
        from precast.loader.watch.watch import Watch
    return Watch.of(os.environ)


def _warn_of_absent(caches: Caches) -> None:
    """Report folders that ``PRECAST_CACHE_PATH`` names and that do not exist, once a process: nothing else would, until
    a kernel is missing."""
    with IMPORT_LOCK:
        from precast.loader.watch.notice import notice
    for discovered in caches:
        if discovered.absent:
            notice(f"{discovered.origin} names {str(discovered.path)!r}, which does not exist: correct or remove it")


def _warn_of_unknown(names: Iterable[str], caches: Caches) -> None:
    """Report names in an order of caches that no cache has."""
    with IMPORT_LOCK:
        from precast.loader.watch.notice import notice
    there = ", ".join(discovered.name for discovered in caches) or "no caches"
    for name in names:
        notice(f"the order of caches (PRECAST_CACHES) names {name!r}, and there is {there}: correct or remove it")


default = Session()


def current_session() -> Session:
    """The session that ``loader.get`` and the other functions serve.

    >>> from precast import loader
    >>> loader.current_session().frozen
    False
    """
    return default


def use(session: Session) -> Session:
    """Make a session the default one; returns the one that was.

    Examples
    --------
    >>> from precast import loader
    >>> before = loader.use(loader.Session(search=""))
    >>> loader.ops()
    ()
    >>> _ = loader.use(before)
    """
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


def _is_simple(config: Mapping[str, object]) -> bool:
    """Whether equal values of equal types are the same config, so that one may stand for the other."""
    return all(
        kind in _SIMPLE or (kind.__module__ == "torch" and "torch" in sys.modules)
        for kind in map(type, config.values())
    )
