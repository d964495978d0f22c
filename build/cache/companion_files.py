"""Companions in a cache: other compilers' files are added to it, and kept by the commands that write it again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from precast.build.cache.cache_folder import check_output, write_cache
from precast.build.cache.compress import store_all
from precast.build.cache.contents import CacheContents
from precast.build.cache.index_writer import cache_files
from precast.build.ipc.capacity import processors
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.companion_index import CompanionFile, CompanionIndex
from precast.loader.contract.format.index import Index, digest
from precast.loader.contract.values import replace

_LEVEL = 9  # a third larger than the level for kernels, and twenty times faster: states of starts have 100 MB


def add_companions(path: Path, name: str, index: CompanionIndex, contents: Mapping[str, bytes]) -> Index:
    """Put companions into the cache at a path, in place of those that it has; a new cache gets the name.

    ``contents`` has the bytes of each blob by its digest. The same values give the same bytes.
    """
    check_output(path)
    if (path / "index.json").exists():
        cache = CacheContents.open(path)
        dropped = cache.companion_blobs.keys() - cache.kernel_blobs.keys()
        files = {file: data for file, data in cache.files().items() if file.removeprefix("blobs/") not in dropped}
    else:
        files = cache_files(name=name, toolchain={}, runtimes=(), ops={}, dictionary=None, blobs={})
    stored = store_all(contents, None, processors(), level=_LEVEL)

    def with_blobs(file: CompanionFile) -> CompanionFile:
        return replace(file, blobs=tuple(stored[blob.sha256].blob for blob in file.blobs))

    states = [replace(state, files=tuple(map(with_blobs, state.files))) for state in index.companions]
    listed = replace(index, companions=tuple(states)).encode()
    CompanionIndex.decode(listed)  # what no reader would take is refused here
    root = store_all({digest(listed): listed}, None, 1)[digest(listed)]
    blobs = {name: each.data for name, each in stored.items()}
    files = _with(files, root.blob, {**blobs, root.blob.sha256: root.data})
    write_cache(path, files)
    return Index.decode(files["index.json"])


def keeping_companions(files: Mapping[str, bytes], caches: Iterable[CacheContents]) -> Mapping[str, bytes]:
    """The files of a cache that is made of others, with the companions of the one that has some."""
    for cache in caches:
        if cache.index.companions is not None:
            return _with(files, cache.index.companions, {n: cache.stored(b) for n, b in cache.companion_blobs.items()})
    return files


def disagreement(caches: Sequence[CacheContents]) -> list[str]:
    """A line if caches have different companions: a process can have the files of one start only."""
    having = {cache.index.companions.sha256: cache for cache in caches if cache.index.companions is not None}
    if len(having) < 2:
        return []
    first, second, *_ = having.values()
    return [f"{first} and {second} have companions of different starts: record the start again for the merged cache"]


def _with(files: Mapping[str, bytes], companions: Blob, blobs: Mapping[str, bytes]) -> dict[str, bytes]:
    index = replace(Index.decode(files["index.json"]), companions=companions)
    return {**files, "index.json": index.encode(), **{f"blobs/{name}": data for name, data in blobs.items()}}
