"""Discovery: which caches this process has, and the order in which they are searched."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from precast.loader.contract.format.config import suggest
from precast.loader.contract.format.index import Index
from precast.loader.contract.values import Immutable, replace
from precast.loader.errors import CacheError, ConfigError, OpNotFound
from precast.loader.fast_start.installed import Installed, locate
from precast.loader.locks import IMPORT_LOCK
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp

if TYPE_CHECKING:
    from precast.loader.resolve.pins import Pins

VARIABLE = "PRECAST_CACHE_PATH"
PIN_VARIABLE = "PRECAST_PIN"
ORDER_VARIABLE = "PRECAST_CACHES"
GROUP = "precast.caches"
_SHOWN = 10  # caches, in an error


class DiscoveredCache(Immutable, kw_only=True):
    """One path where a cache is, or should be. A broken one has an ``error`` and no ``cache``.

    ``label`` is the name, with the path if another cache has the same name. ``ordered`` unless only its name decides
    where it is searched among the installed ones.
    """

    name: str
    path: Path | None
    origin: str
    cache: Cache | None = None
    error: CacheError | None = None
    label: str = ""
    ordered: bool = True

    @property
    def index(self) -> Index | None:
        """The index of a cache that could be opened."""
        return self.cache.index if self.cache else None

    @property
    def absent(self) -> bool:
        """Whether ``PRECAST_CACHE_PATH`` names this path, and nothing is there."""
        return self.error is not None and self.origin == VARIABLE and not os.path.lexists(self.path or "")

    def __str__(self) -> str:
        if self.cache is not None:
            count = len(self.cache.index.ops)
            return f"{self.label} ({self.origin}): {count} op{'' if count == 1 else 's'}"
        return f"{self.label} ({self.origin}): {self.error}"


class Caches(tuple[DiscoveredCache, ...]):
    """The caches in the order in which they are searched; a prompt shows each on its own line."""

    __slots__ = ()

    def unknown(self, order: Sequence[str] | None) -> list[str]:
        """The names in an order, by default that of ``PRECAST_CACHES``, that none of these caches has."""
        names = order_of_environment() if order is None else order
        return [name for name in names if name not in {discovered.name for discovered in self}]

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "no caches"


def discover(
    search: str | None = None,
    pins: Pins | None = None,
    installed: Installed | None = None,
    order: Sequence[str] | None = None,
) -> Caches:
    """Every cache, first the directories of ``PRECAST_CACHE_PATH`` in their order, then installed wheels: those that
    ``PRECAST_CACHES`` names in its order, the others by name.

    Parameters
    ----------
    search
        A list of directories to use in place of ``PRECAST_CACHE_PATH``.
    pins
        Digests to use in place of ``PRECAST_PIN``.
    installed
        The installed distributions.
    order
        Names of installed caches to use in place of ``PRECAST_CACHES``.
    """
    order = order_of_environment() if order is None else order
    pins = pins or _pins(os.environ.get(PIN_VARIABLE, ""))
    search = os.environ.get(VARIABLE, "") if search is None else search
    seen: set[object] = set()
    result = []
    for discovered in (*_listed(search, pins), *_in_order(_in_wheels(installed or Installed(), pins), order)):
        identity = _identity(discovered.path) if discovered.path else None
        if identity is None or identity not in seen:
            seen.add(identity)
            result.append(discovered)
    names = [discovered.name for discovered in result]
    return Caches(replace(d, label=d.name if names.count(d.name) == 1 else f"{d.name} at {d.path}") for d in result)


def order_of_environment() -> tuple[str, ...]:
    """The names in ``PRECAST_CACHES``."""
    names = map(str.strip, os.environ.get(ORDER_VARIABLE, "").split(","))
    return tuple(filter(None, names))


def _in_order(wheels: Iterable[DiscoveredCache], order: Sequence[str]) -> list[DiscoveredCache]:
    """The wheels that an order names, then the others as they come."""
    places = {name: number for number, name in reversed(tuple(enumerate(order)))}
    named = [replace(wheel, ordered=wheel.name in places) for wheel in wheels]
    return sorted(named, key=lambda wheel: places.get(wheel.name, len(order)))


def _pins(text: str) -> Pins | None:
    """Pins from ``PRECAST_PIN``. Few processes have any, so their reader is imported only here."""
    if not text:
        return None
    with IMPORT_LOCK:
        from precast.loader.resolve.pins import read_pins
    return read_pins(text)


def _identity(path: Path) -> object:
    """A value that is equal for two paths of one folder."""
    try:
        facts = os.stat(path)
    except OSError:
        return path
    return facts.st_dev, facts.st_ino


def _listed(search: str, pins: Pins | None) -> Iterator[DiscoveredCache]:
    for text in search.split(os.pathsep):
        if text:
            yield _open(Path(text).name, Path(text), VARIABLE, pins)


def _in_wheels(installed: Installed, pins: Pins | None) -> Iterator[DiscoveredCache]:
    for name, module in installed.entry_points(GROUP):
        origin = f"entry point {name!r}"
        folder = locate(module)
        if folder is None:
            error = CacheError(f"{origin} names the package {module!r}, which is not installed: reinstall its wheel")
            yield DiscoveredCache(name=name, path=None, origin=origin, error=error)
        else:
            yield _open(name, folder, origin, pins)


def _open(name: str, path: Path, origin: str, pins: Pins | None) -> DiscoveredCache:
    try:
        cache = Cache(path, origin, pins=pins)
    except CacheError as error:
        return DiscoveredCache(name=name, path=path, origin=origin, error=error)
    return DiscoveredCache(name=cache.name, path=path, origin=origin, cache=cache)


def sources_of(op: str, caches: Caches) -> tuple[list[CachedOp], tuple[str, ...]]:
    """The op in every cache that has it, and a note for each cache that cannot be read."""
    if not isinstance(op, str):
        raise ConfigError(f"{op!r} is not the name of an op: loader.ops() lists them")
    sources, errors = [], [discovered.error for discovered in caches if discovered.error]
    damage: CacheError | None = None
    for precedence, discovered in enumerate(caches):
        cache = discovered.cache
        if cache is not None and op in cache.index.ops:
            try:
                sources.append(
                    CachedOp(
                        cache=discovered.label,
                        precedence=precedence,
                        ordered=discovered.ordered,
                        index=cache.index,
                        op=cache.op(op),
                    )
                )
            except CacheError as error:
                damage = error
                errors.append(error)
    if not sources:
        raise damage or unknown_op(op, caches)
    return sources, tuple(f"a cache was left out: {error}" for error in errors)


def unknown_op(op: str, caches: tuple[DiscoveredCache, ...]) -> OpNotFound:
    """The error of an op that no cache holds."""
    names = {name for discovered in caches if discovered.index for name in discovered.index.ops}
    looked = "".join(f"\n  {discovered}" for discovered in caches[:_SHOWN]) or "\n  none"
    if len(caches) > _SHOWN:
        looked += f"\n  and {len(caches) - _SHOWN} more: loader.caches() lists them"
    return OpNotFound(
        f"no cache holds op {op!r}{suggest(op, names)}\ncaches looked at:{looked}\n"
        f"Install the cache wheel that has the op, or name its directory in {VARIABLE}"
    )
