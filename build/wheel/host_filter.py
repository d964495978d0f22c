"""The host filter: the part of a cache for several hosts that one of them needs."""

from __future__ import annotations

from collections.abc import Mapping

from precast.build.cache.companion_files import keeping_companions
from precast.build.cache.contents import CacheContents
from precast.build.cache.index_writer import cache_files
from precast.build.link.toolchain import by_host
from precast.build.measurements.rows import joined
from precast.loader.contract.format.index import OpIndex


def for_host(cache: CacheContents, stored: Mapping[str, bytes], host: str) -> Mapping[str, bytes]:
    """The files of the cache without those for other hosts. ``stored`` has the bytes of its blobs' files.

    Device code is for every host and is kept.
    """
    index = cache.index
    runtimes = tuple(r for r in index.runtimes if r.host.arch == host)
    needed = {runtime.blob.sha256 for runtime in runtimes}
    needed.update([index.dictionary.sha256] if index.dictionary else [])
    ops = {}
    for op, listed in cache.ops.items():
        artifacts = tuple(a for a in listed.artifacts if a.host is None or a.host.arch == host)
        if artifacts:
            needed.update(blob.sha256 for a in artifacts for blob in a.blobs)
            tuning = joined([listed.tuning], {a.key for a in artifacts})
            ops[op] = OpIndex.of(op=op, keys=listed.keys, doc=listed.doc, artifacts=artifacts, tuning=tuning)
    files = cache_files(
        name=index.name,
        toolchain=by_host(index).get(host, {}),
        runtimes=runtimes,
        ops=ops,
        dictionary=index.dictionary,
        blobs={sha256: stored[sha256] for sha256 in sorted(needed)},
    )
    return keeping_companions(files, [cache])
