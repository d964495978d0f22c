"""Narrowing: what one host needs of a cache that was built for several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from precast.build.link.toolchain import by_host
from precast.loader.format.index import Index, OpEntry, OpIndex, digest
from precast.loader.format.tuning import joined


def hosts_of(index: Index) -> tuple[str, ...]:
    """The host processors that a cache is for."""
    return tuple(sorted({r.host.arch for r in index.runtimes}))


def for_host(files: Mapping[str, bytes], host: str) -> dict[str, bytes]:
    """The files of the same cache without what runs on other hosts only. Blobs stay as they are stored."""
    index = Index.decode(files["index.json"])
    kept: dict[str, bytes] = {}
    entries: dict[str, OpEntry] = {}
    blobs = {index.dictionary.sha256} if index.dictionary else set()
    runtimes = tuple(r for r in index.runtimes if r.host.arch == host)
    blobs.update(blob.sha256 for r in runtimes for blob in r.blobs)
    for op in index.ops:
        listed = OpIndex.decode(files[f"ops/{op}.json"], op=op)
        artifacts = tuple(a for a in listed.artifacts if a.host is None or a.host.arch == host)
        if not artifacts:
            continue
        blobs.update(a.blob.sha256 for a in artifacts)
        tuning = joined([listed.tuning], {a.key for a in artifacts})
        data = OpIndex.of(op=op, keys=listed.keys, doc=listed.doc, artifacts=artifacts, tuning=tuning).encode()
        kept[f"ops/{op}.json"] = data
        entries[op] = OpEntry(sha256=digest(data), size=len(data), artifacts=len(artifacts))
    own = replace(index, toolchain=by_host(index).get(host, {}), runtimes=runtimes, ops=entries)
    kept.update({f"blobs/{name}": files[f"blobs/{name}"] for name in sorted(blobs)})
    return {"index.json": own.encode(), **kept}
