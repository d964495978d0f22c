"""The index writer: the only module that names the files of a cache and makes its index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from precast.build.errors import OutputError
from precast.loader.contract.format.artifact import BLOB_LIMIT, Blob
from precast.loader.contract.format.index import (
    MOST_ARTIFACTS,
    OP_LIMIT,
    Index,
    OpEntry,
    OpIndex,
    Runtime,
    digest,
)
from precast.loader.contract.format.tuning.table import MOST_ROWS
from precast.loader.resolve.candidate import bucketing
from precast.loader.resolve.choose import MOST_OF_ONE_CONFIG


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
    for op, data in listed.items():
        _check_bounds(ops[op], len(data))
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


def _check_bounds(index: OpIndex, size: int) -> None:
    """Raise OutputError for an op that readers would refuse."""
    bucket = bucketing(index.keys)
    of_one_config = max(Counter(bucket(artifact.config) for artifact in index.artifacts).values(), default=0)
    largest = max((blob.size for artifact in index.artifacts for blob in artifact.blobs), default=0)
    for what, number, most in (
        ("artifacts", len(index.artifacts), MOST_ARTIFACTS),
        ("artifacts of one config", of_one_config, MOST_OF_ONE_CONFIG),
        ("measured problems", len(index.tuning), MOST_ROWS),
        ("bytes in its file", size, OP_LIMIT),
        ("bytes in one blob", largest, BLOB_LIMIT),
    ):
        if number > most:
            raise OutputError(
                f"op {index.op!r} has {number} {what}, and readers take at most {most}: build fewer variants of it in"
                " one cache"
            )
