"""Companions of a recorded start, added to a cache."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from precast.build.cache.cache_folder import check_output, write_cache
from precast.build.cache.companion_files import with_companions
from precast.build.cache.compress import store_all
from precast.build.cache.contents import CacheContents
from precast.build.cache.index_writer import cache_files
from precast.build.ipc.capacity import processors
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
    files = with_companions(files, root.blob, {**blobs, root.blob.sha256: root.data})
    write_cache(path, files)
    return Index.decode(files["index.json"])
