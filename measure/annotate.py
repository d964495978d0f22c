"""Annotating: adds measurements and evidence to a cache. Its blobs do not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from precast.build.cache.cache_folder import write_cache
from precast.build.cache.companion_files import keeping_companions
from precast.build.cache.contents import CacheContents
from precast.build.cache.index_writer import cache_files
from precast.loader.contract.format import fields
from precast.loader.contract.format.index import TUNING_LIMIT, OpIndex, check_version, encode
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.patterns import OP_NAME
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.errors import FormatError
from precast.loader.resolve.cache import Cache

FORMAT = "precast-measurements"
_LIMIT = 256 << 20


@dataclass(frozen=True, slots=True)
class Measurements:
    """A file of ``precast bench``: measurements by op."""

    ops: Mapping[str, tuple[Measured, ...]]

    def encode(self) -> bytes:
        """The bytes of the file: sorted, without timestamps or paths.

        >>> Measurements({}).encode()
        b'{\\n "format": "precast-measurements",\\n "ops": {},\\n "version": 1\\n}\\n'
        """
        ops = {op: [m.to_json() for m in sorted(rows, key=lambda m: m.place)] for op, rows in self.ops.items()}
        return encode({"format": FORMAT, "version": 1, "ops": ops})

    @classmethod
    def decode(cls, data: bytes) -> Measurements:
        """Read such a file; each problem may occur once for each GPU."""
        root = fields.as_object(fields.read_json(data, limit=_LIMIT))
        check_version(root, FORMAT)
        fields.known(root, ("format", "version", "ops"))
        ops = {}
        for op in fields.parsed(root, "ops", fields.as_object):
            if not OP_NAME.admits(op):
                raise FormatError("not the name of an op", f"ops.{op[:80]}")
            rows = fields.items(root["ops"], op, Measured.parse, most=TUNING_LIMIT)
            if len({m.place for m in rows}) != len(rows):
                raise FormatError("a problem occurs twice for one GPU", f"ops.{op}")
            ops[op] = rows
        return cls(ops)


def tune(cache: Cache, measurements: Iterable[Measurements]) -> dict[str, int]:
    """Add measurements to a cache; a later one of the same artifact, problem and GPU replaces an earlier one.

    The same cache and files give the same bytes. Returns the number of measured times of each op. An op or an artifact
    that the cache does not have is a FormatError, and nothing is written.
    """
    tables: dict[str, dict[Any, Measured]] = {}
    for source in measurements:
        for op, rows in source.ops.items():
            listed = _listed(cache, op)
            table = tables.setdefault(op, {m.place: m for m in listed.tuning})
            keys = {a.key for a in listed.artifacts}
            for row in rows:
                unknown = sorted(set(row.times) - keys)
                if unknown:
                    raise FormatError(
                        f"cache {cache.name!r} has no artifact {unknown[0][:12]} of {op}: measure this cache itself"
                    )
                table[row.place] = _joined(table.get(row.place), row)
    changed = {
        op: OpIndex.of(
            op=op,
            keys=cache.op(op).keys,
            doc=cache.op(op).doc,
            artifacts=cache.op(op).artifacts,
            tuning=tuple(table.values()),
        )
        for op, table in tables.items()
    }
    _write(cache, changed)
    return {op: sum(len(m.times) for m in table.values()) for op, table in tables.items()}


def _joined(old: Measured | None, new: Measured) -> Measured:
    """Two rows of one problem and GPU; values of the later one replace those of the earlier one."""
    if old is None:
        return new
    return replace(new, times={**old.times, **new.times}, tilings={**old.tilings, **new.tilings})


def add_evidence(cache: Cache, evidence: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    """Add evidence to a cache, by op and artifact key; it replaces evidence of the same check and GPU."""
    changed = {}
    for op, by_key in evidence.items():
        listed = _listed(cache, op)
        artifacts = tuple(replace(a, evidence=_with(a.evidence, by_key.get(a.key))) for a in listed.artifacts)
        changed[op] = OpIndex.of(op=op, keys=listed.keys, doc=listed.doc, artifacts=artifacts, tuning=listed.tuning)
    _write(cache, changed)


def _with(old: tuple[dict[str, Any], ...], new: Mapping[str, Any] | None) -> tuple[dict[str, Any], ...]:
    if new is None:
        return old
    kept = [e for e in old if (e.get("check"), e.get("gpu")) != (new.get("check"), new.get("gpu"))]
    return tuple(sorted([*kept, dict(new)], key=lambda e: (str(e.get("check")), str(e.get("gpu")))))


def _listed(cache: Cache, op: str) -> OpReader:
    if op not in cache.index.ops:
        raise FormatError(f"cache {cache.name!r} has no op {op!r}: measure this cache itself")
    return cache.op(op)


def _write(cache: Cache, changed: Mapping[str, OpIndex]) -> None:
    """Write the cache again with the files of some ops changed, and with its blobs after they were checked."""
    contents, index = CacheContents(cache), cache.index
    files = cache_files(
        name=index.name,
        toolchain=index.toolchain,
        runtimes=index.runtimes,
        ops={op: changed.get(op) or reader.index for op, reader in contents.ops.items()},
        dictionary=index.dictionary,
        blobs=contents.stored_blobs(),
    )
    write_cache(cache.path, keeping_companions(files, [contents]))
