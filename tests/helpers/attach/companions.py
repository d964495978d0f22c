"""Caches with companions, as 'precast start record' makes them, of a few bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from precast.loader.contract.format.companion_index import (
    FOLDER,
    FORMAT,
    CompanionFile,
    CompanionIndex,
    CompanionState,
)
from precast.loader.contract.format.index import encode
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import CacheWriter

FACTS = {"triton": "3.8.0", "python": "cpython", "gpu": "NVIDIA H200 (9.0)"}
GROUP = "K/__grp__add.json"
FILES = {"K/add.cubin": b"code" * 99, "K/add.json": b"{}", GROUP: b'{"child_paths": {"a": "' + FOLDER + b'/K/a"}}'}
"""As Triton leaves them: a kernel, and a group that names its files by their paths."""


def state_of(
    writer: CacheWriter, files: Mapping[str, bytes], facts: Mapping[str, str], name: str = "triton"
) -> CompanionState:
    """A companion with these files, whose bytes the cache gets."""
    listed = [
        CompanionFile(path=path, blobs=(writer.keep(data),), relocations=data.count(FOLDER))
        for path, data in files.items()
    ]
    return CompanionState(name=name, facts=dict(facts), files=tuple(listed))


def cache_with(
    path: Path, files: Mapping[str, bytes] = FILES, facts: Mapping[str, str] = FACTS, name: str = "triton"
) -> Cache:
    """A cache with one companion and no kernel."""
    writer = CacheWriter()
    index = CompanionIndex(command=("serve",), companions=(state_of(writer, files, facts, name),))
    writer.companions = writer.keep(index.encode())
    return Cache(writer.write(path))


def cache_listing(path: Path, companions: Any) -> Cache:
    """A cache whose companion index has any value for its list of companions."""
    writer = CacheWriter()
    listed = {"format": FORMAT, "version": 1, "command": [], "companions": companions}
    writer.companions = writer.keep(encode(listed))
    return Cache(writer.write(path))
