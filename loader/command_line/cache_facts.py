"""The facts about installed caches: what this machine's GPUs run of each, and which ops several of them have."""

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
from precast.loader.errors import AttachNotInstalled, FormatError, PrecastError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp
from precast.loader.resolve.discover import ORDER_VARIABLE, VARIABLE, DiscoveredCache
from precast.loader.resolve.judge import resolve_every

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache

REPAIR = "reinstall or uninstall that cache's wheel; or build it again, or remove it from PRECAST_CACHE_PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """How many of a cache's artifacts one GPU runs, and why not the others, the most frequent reason first."""

    gpu: str
    device: str
    count: int
    total: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFacts:
    """A cache that the loader discovers, or the path where one should be, with what is wrong and what to do.

    ``served`` has an entry for each kind of GPU in this machine.
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
    """Ops that the same caches have, in the order of these caches, and how many variants all of them have."""

    ops: tuple[str, ...]
    caches: tuple[str, ...]
    common: int
    order: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedLibrary:
    """A library that caches were recorded for: the recorded versions, the installed one, and why it is not served."""

    distribution: str
    recorded: tuple[str, ...]
    installed: str = ""
    why: str = ""


def cache_facts(discovered: DiscoveredCache, machines: Mapping[str, Machine]) -> CacheFacts:
    """The facts about one cache, for each GPU."""
    facts = CacheFacts(name=discovered.name, path=str(discovered.path or "no path"), origin=discovered.origin)
    if discovered.cache is None:
        code = discovered.error.code if discovered.error else ""
        return replace(facts, trouble=str(discovered.error), code=code, remedy=_remedy(discovered.path))
    try:
        served = tuple(_served(discovered.cache, gpu, machine) for gpu, machine in machines.items())
        return replace(facts, served=served)
    except PrecastError as error:
        return replace(facts, trouble=str(error), code=error.code)


def _remedy(path: Path | None) -> str:
    """What to do about a cache that cannot be opened. In two cases installing it again would not help."""
    try:
        for part in filter(None, (path, path and path / "index.json")):
            if os.stat(part).st_mode & stat.S_IWOTH:
                return f"chmod -R o-w {path}, after you have checked that nobody changed it"
        index = path / "index.json" if path else None
        if index is not None and index.is_file() and index.stat().st_size <= INDEX_LIMIT:  # a FIFO would block
            version = fields.as_object(fields.read_json(index.read_bytes(), limit=INDEX_LIMIT)).get("version")
            if isinstance(version, int) and version > VERSION:
                return "pip install --upgrade precast-loader; or build the cache with this machine's version of precast"
    except (OSError, FormatError):
        pass
    return REPAIR


def _served(cache: Cache, gpu: str, machine: Machine) -> Served:
    reasons: Counter[str] = Counter()
    count = total = 0
    for op in sorted(cache.index.ops):
        index = cache.op(op)
        resolution = resolve_every(op, machine, [CachedOp(cache=cache.name, precedence=0, index=cache.index, op=index)])
        count += len(resolution.accepted)
        total += len(index.rows)
        reasons.update(reason for rejected in resolution.rejected for reason in rejected.reasons)
    most = tuple(reason for reason, _ in reasons.most_common(3))
    device = f"{machine.device.name}, {machine.capability}" if machine.device else str(machine.capability)
    return Served(gpu=gpu, device=device, count=count, total=total, reasons=most)


def shared_ops(caches: Sequence[DiscoveredCache]) -> tuple[SharedOps, ...]:
    """Ops that more than one cache has, grouped by the caches that have them."""
    holders: dict[str, list[int]] = defaultdict(list)
    for position, cache in enumerate(caches):
        for op in cache.index.ops if cache.index else ():
            holders[op].append(position)
    groups: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for op, positions in sorted(holders.items()):
        if len(positions) > 1:
            groups[tuple(positions)].append(op)
    return tuple(
        SharedOps(
            ops=tuple(ops),
            caches=tuple(f"{caches[i].name} at {caches[i].path}" for i in positions),
            common=sum(len(set.intersection(*(_variants(caches[i], op) for i in positions))) for op in ops),
            order=_order(caches[positions[0]], caches[positions[1]]),
        )
        for positions, ops in sorted(groups.items())
    )


def _variants(discovered: DiscoveredCache, op: str) -> set[tuple[str, str]]:
    """The variants of an op, by config and target; none if its file cannot be read, which is a finding of its own."""
    try:
        rows = discovered.cache.op(op).artifacts if discovered.cache else ()
        return {(json.dumps(a.to_json()["config"], sort_keys=True), str(a.target)) for a in rows}
    except PrecastError:
        return set()


def _order(first: DiscoveredCache, second: DiscoveredCache) -> str:
    if first.origin != VARIABLE:
        return f"{ORDER_VARIABLE} names it first" if first.ordered else "no order was given, and its name comes first"
    if second.origin != VARIABLE:
        return f"folders of {VARIABLE} come before installed wheels"
    return f"it is first in {VARIABLE}"


def attached_libraries(caches: Sequence[DiscoveredCache]) -> tuple[AttachedLibrary, ...]:
    """The libraries whose kernels caches have, and whether the installed versions get these kernels."""
    ops = (op for cache in caches for op in (cache.index.ops if cache.index else ()))
    names = sorted({op.split(".")[1] for op in ops if op.startswith("attach.")})
    if not names:
        return ()
    try:
        from precast.loader import attach
    except AttachNotInstalled as error:
        return (AttachedLibrary(distribution="precast-attach", recorded=tuple(names), why=str(error)),)
    return attach.recorded_libraries(caches, names)


def machines_by_kind(devices: Iterable[tuple[str, Machine]]) -> Iterator[tuple[str, Machine]]:
    """One GPU of each compute capability: others of it run the same artifacts."""
    seen = set()
    for gpu, machine in devices:
        if machine.capability not in seen:
            seen.add(machine.capability)
            yield gpu, machine
