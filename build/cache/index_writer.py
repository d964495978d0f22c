"""The index writer: the only module that names the files of a cache and makes its index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.index import Index, OpEntry, OpIndex, Runtime, digest


def cache_files(
    *,
    name: str,
    toolchain: Mapping[str, str],
    runtimes: Iterable[Runtime],
    ops: Mapping[str, OpIndex],
    dictionary: Blob | None,
    blobs: Mapping[str, bytes],
) -> dict[str, bytes]:
    """Every file of a cache by its name: the index, a file for each op, and the blobs, without changes.

    The same values give the same bytes.

    >>> list(cache_files(name="empty", toolchain={}, runtimes=(), ops={}, dictionary=None, blobs={}))
    ['index.json']

    Parameters
    ----------
    name, toolchain, runtimes, dictionary
        The fields of the index about the cache as a whole.
    ops
        The index of each op; every blob that it names is in ``blobs``.
    blobs
        The stored bytes of each blob, by the digest of its content.
    """
    listed = {op: ops[op].encode() for op in sorted(ops)}
    entries = {
        op: OpEntry(sha256=digest(data), size=len(data), artifacts=len(ops[op].artifacts))
        for op, data in listed.items()
    }
    index = Index(name=name, toolchain=dict(toolchain), runtimes=tuple(runtimes), ops=entries, dictionary=dictionary)
    return {
        "index.json": index.encode(),
        **{f"ops/{op}.json": data for op, data in listed.items()},
        **{f"blobs/{sha256}": data for sha256, data in blobs.items()},
    }
