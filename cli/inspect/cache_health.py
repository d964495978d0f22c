"""What the doctor sees of caches: how much of each this machine's GPUs run, what several have, whom they are for."""

from __future__ import annotations

import json
import os
import stat
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from precast.loader.contract.format import fields
from precast.loader.contract.format.index import INDEX_LIMIT, VERSION
from precast.loader.errors import FormatError, PrecastError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp
from precast.loader.resolve.discover import VARIABLE, DiscoveredCache
from precast.loader.resolve.judge import resolve_every

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache

REPAIR = "reinstall or uninstall that cache's wheel; or build it again, or take it out of PRECAST_CACHE_PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How many artifacts of a cache one GPU runs, and why not the others, the most frequent reason first."""

    gpu: str
    device: str
    count: int
    of: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFacts:
    """One cache that the loader finds, or the place where one should be, with what is wrong there and what to do.

    ``served`` has an entry for each kind of GPU here.
    """

    name: str
    path: str
    origin: str
    trouble: str = ""
    code: str = ""
    remedy: str = REPAIR
    served: tuple[Served, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedOps:
    """Ops that the same caches have, in the order in which these are asked, and how many variants all of them have."""

    ops: tuple[str, ...]
    caches: tuple[str, ...]
    common: int
    order: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedLibrary:
    """A library that caches were recorded for: its versions there, and the one here; ``why`` nothing is served."""

    distribution: str
    recorded: tuple[str, ...]
    installed: str = ""
    why: str = ""


def cache_facts(found: DiscoveredCache, machines: Mapping[str, Machine]) -> CacheFacts:
    """One cache, judged for each GPU."""
    facts = CacheFacts(name=found.name, path=str(found.path or "nowhere"), origin=found.origin)
    if found.cache is None:
        code = found.error.code if found.error else ""
        return replace(facts, trouble=str(found.error), code=code, remedy=_remedy(found.path))
    try:
        served = tuple(_served(found.cache, gpu, machine) for gpu, machine in machines.items())
        return replace(facts, served=served)
    except PrecastError as error:
        return replace(facts, trouble=str(error), code=error.code)


def _remedy(path: Path | None) -> str:
    """What to do about a cache that cannot be opened; the two cases in which a new copy would not help are told."""
    try:
        for part in filter(None, (path, path and path / "index.json")):
            if os.stat(part).st_mode & stat.S_IWOTH:
                return f"chmod -R o-w {path}, once you know that nobody has changed it"
        index = path / "index.json" if path else None
        if index is not None and index.is_file() and index.stat().st_size <= INDEX_LIMIT:  # a FIFO would wait for ever
            version = fields.as_object(fields.read_json(index.read_bytes(), limit=INDEX_LIMIT)).get("version")
            if isinstance(version, int) and version > VERSION:
                return "pip install --upgrade precast-loader; or build the cache with the precast of this machine"
    except (OSError, FormatError):
        pass
    return REPAIR


def _served(cache: Cache, gpu: str, machine: Machine) -> Served:
    reasons: Counter[str] = Counter()
    count = total = 0
    for op in sorted(cache.index.ops):
        index = cache.op(op)
        decided = resolve_every(op, machine, [CachedOp(cache=cache.name, precedence=0, index=cache.index, op=index)])
        count += len(decided.accepted)
        total += len(index.rows)
        reasons.update(reason for one in decided.rejected for reason in one.reasons)
    most = tuple(reason for reason, _ in reasons.most_common(3))
    device = f"{machine.device.name}, {machine.capability}" if machine.device else str(machine.capability)
    return Served(gpu=gpu, device=device, count=count, of=total, reasons=most)


def shared_ops(found: Sequence[DiscoveredCache]) -> tuple[SharedOps, ...]:
    """Ops that more than one cache has, together where the same caches have them."""
    holders: dict[str, list[int]] = defaultdict(list)
    for place, one in enumerate(found):
        for op in one.index.ops if one.index else ():
            holders[op].append(place)
    groups: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for op, places in sorted(holders.items()):
        if len(places) > 1:
            groups[tuple(places)].append(op)
    return tuple(
        SharedOps(
            ops=tuple(ops),
            caches=tuple(f"{found[place].name} at {found[place].path}" for place in places),
            common=sum(len(set.intersection(*(_variants(found[place], op) for place in places))) for op in ops),
            order=_order(found[places[0]], found[places[1]]),
        )
        for places, ops in sorted(groups.items())
    )


def _variants(one: DiscoveredCache, op: str) -> set[tuple[str, str]]:
    """The variants of an op, by config and target; none where its file cannot be read, which is another finding."""
    try:
        rows = one.cache.op(op).artifacts if one.cache else ()
        return {(json.dumps(a.to_json()["config"], sort_keys=True), str(a.target)) for a in rows}
    except PrecastError:
        return set()


def _order(first: DiscoveredCache, second: DiscoveredCache) -> str:
    if first.origin != VARIABLE:
        return "wheels are asked in the order of their names"
    if second.origin != VARIABLE:
        return f"folders of {VARIABLE} come before installed wheels"
    return f"it stands first in {VARIABLE}"


def attached_libraries(found: Iterable[DiscoveredCache]) -> tuple[AttachedLibrary, ...]:
    """The libraries of shipped seams that caches hold kernels for, and whether those that are installed are served."""
    recorded: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for one in found:
        for op in one.index.ops if one.index else ():
            if op.startswith("attach."):
                recorded[op.split(".")[1]] |= _guards(one, op)
    return tuple(_library(name, guards) for name, guards in sorted(recorded.items()) if guards and _ships(name))


def _ships(name: str) -> bool:
    from precast.loader.attach import SHIPPED

    return name in SHIPPED


def _guards(one: DiscoveredCache, op: str) -> set[tuple[str, str]]:
    """The versions and the digests of a library's sources that its kernels were recorded with."""
    from precast.loader.contract.recordings.provenance import SOURCE, VERSION

    try:
        rows = one.cache.op(op).artifacts if one.cache else ()
    except PrecastError:
        return set()
    return {(str(a.config.get(VERSION, "")), str(a.config.get(SOURCE, ""))) for a in rows}


def _library(name: str, guards: set[tuple[str, str]]) -> AttachedLibrary:
    from precast.loader.attach import NotInstalled, library_named

    library, versions = library_named(name), tuple(sorted({version for version, _ in guards}))
    try:
        here = library.guard()
    except NotInstalled:
        return AttachedLibrary(distribution=library.distribution, recorded=versions)
    why = ""
    if here.version not in versions:
        why = f"the caches were recorded with {' and '.join(versions)}"
    elif (here.version, here.source) not in guards:
        why = "its files are not those that the caches were recorded with"
    return AttachedLibrary(distribution=library.distribution, recorded=versions, installed=here.version, why=why)


def machines_by_kind(devices: Iterable[tuple[str, Machine]]) -> Iterator[tuple[str, Machine]]:
    """One GPU of each kind: others of it run the same."""
    seen = set()
    for gpu, machine in devices:
        if machine.capability not in seen:
            seen.add(machine.capability)
            yield gpu, machine
