"""Companions in a cache, other compilers' files: the commands that write the cache again keep them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from precast.build.cache.contents import CacheContents
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.index import Index
from precast.loader.contract.values import replace


def keeping_companions(files: Mapping[str, bytes], caches: Iterable[CacheContents]) -> Mapping[str, bytes]:
    """The files of a cache that is made of others, with the companions of the one that has some."""
    for cache in caches:
        if cache.index.companions is not None:
            return with_companions(
                files, cache.index.companions, {n: cache.stored(b) for n, b in cache.companion_blobs.items()}
            )
    return files


def disagreement(caches: Sequence[CacheContents]) -> list[str]:
    """A line if caches have different companions: a process can have the files of one start only."""
    having = {cache.index.companions.sha256: cache for cache in caches if cache.index.companions is not None}
    if len(having) < 2:
        return []
    first, second, *_ = having.values()
    return [f"{first} and {second} have companions of different starts: record the start again for the merged cache"]


def with_companions(files: Mapping[str, bytes], companions: Blob, blobs: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a cache with these companions, and with their blobs by digest, in place of those that it has."""
    index = replace(Index.decode(files["index.json"]), companions=companions)
    return {**files, "index.json": index.encode(), **{f"blobs/{name}": data for name, data in blobs.items()}}
