"""The libraries that installed caches were recorded for, for the report of a machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from precast.attach.guards import NotInstalled
from precast.attach.library import SHIPPED, library_named
from precast.attach.recordings.provenance import SOURCE, VERSION
from precast.loader.command_line.cache_facts import AttachedLibrary
from precast.loader.errors import PrecastError
from precast.loader.resolve.discover import DiscoveredCache


def recorded_libraries(caches: Sequence[DiscoveredCache], names: Iterable[str]) -> tuple[AttachedLibrary, ...]:
    """The shipped libraries of these names, and whether the installed versions get the kernels that caches have.

    >>> recorded_libraries([], ["quack"])
    ()
    """
    guards = {name: _guards(caches, f"attach.{name}.") for name in names if name in SHIPPED}
    return tuple(_library(name, pairs) for name, pairs in guards.items() if pairs)


def _guards(caches: Iterable[DiscoveredCache], ops: str) -> set[tuple[str, str]]:
    """The versions and the digests of a library's sources that its kernels were recorded with."""
    pairs = set()
    for cache in caches:
        for op in cache.index.ops if cache.index else ():
            if op.startswith(ops):
                pairs |= _guards_of_op(cache, op)
    return pairs


def _guards_of_op(discovered: DiscoveredCache, op: str) -> set[tuple[str, str]]:
    try:
        rows = discovered.cache.op(op).artifacts if discovered.cache else ()
    except PrecastError:
        return set()
    return {(str(a.config.get(VERSION, "")), str(a.config.get(SOURCE, ""))) for a in rows}


def _library(name: str, guards: set[tuple[str, str]]) -> AttachedLibrary:
    library, versions = library_named(name), tuple(sorted({version for version, _ in guards}))
    try:
        installed = library.guard()
    except NotInstalled:
        return AttachedLibrary(distribution=library.distribution, recorded=versions)
    why = ""
    if installed.version not in versions:
        why = f"the caches were recorded with {' and '.join(versions)}"
    elif (installed.version, installed.source) not in guards:
        why = "its files differ from those that the caches were recorded with"
    return AttachedLibrary(distribution=library.distribution, recorded=versions, installed=installed.version, why=why)
