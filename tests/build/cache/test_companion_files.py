"""Companions of a cache stay with it: through commands that write it again, and from cache to cache."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from precast.build.cache.contents import CacheContents
from precast.build.cache.merge import merge_caches
from precast.build.cache.pack import uncompressed
from precast.build.errors import MergeError
from precast.loader.contract.format.companion_index import CompanionFile, CompanionIndex, CompanionState
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import CacheWriter, artifact

add_companions = pytest.importorskip("precast.attach.builder.added_companions").add_companions
add_evidence = pytest.importorskip("precast.measure.annotate").add_evidence


def kernels(path: Path, name: str = "demo") -> Path:
    writer = CacheWriter(name=name)
    writer.op("scale", [artifact(writer.keep(b"code"), {"dtype": "float32"}, kind="cubin", host=None, symbol="k")])
    return writer.write(path)


def start(path: Path, data: bytes, name: str = "demo") -> Cache:
    file = CompanionFile(path="a", blobs=(uncompressed(data),))
    state = CompanionState(name="triton", facts={}, files=(file,))
    index = CompanionIndex(command=(), companions=(state,))
    add_companions(path, name, index, {file.blobs[0].sha256: data})
    return Cache(path)


def content(cache: Cache) -> bytes:
    index = cache.companions()
    assert index is not None
    return cache.read(index.companions[0].files[0].blobs[0])


def test_they_are_added_to_kernels_and_replaced(tmp_path: Path) -> None:
    path = kernels(tmp_path / "cache")
    before = Cache(path).index
    assert content(start(path, b"one")) == b"one" and content(cache := start(path, b"two")) == b"two"
    assert replace(cache.index, companions=None) == before
    assert len(list((path / "blobs").iterdir())) == 3 and not CacheContents.open(path).verify().damaged
    assert start(tmp_path / "new", b"one", "fresh").name == "fresh"


def test_annotating_keeps_them(tmp_path: Path) -> None:
    path = kernels(tmp_path / "cache")
    cache = start(path, b"one")
    key = cache.op("scale").artifacts[0].key
    add_evidence(cache, {"scale": {key: {"check": "verify", "gpu": "H"}}})
    assert Cache(path).op("scale").artifacts[0].evidence and content(Cache(path)) == b"one"


def test_merging_keeps_those_of_the_one_that_has_some(tmp_path: Path) -> None:
    paths = [kernels(tmp_path / "a"), kernels(tmp_path / "b"), kernels(tmp_path / "c")]
    start(paths[1], b"one")
    merge_caches(paths, tmp_path / "merged")
    assert content(Cache(tmp_path / "merged")) == b"one"
    start(paths[2], b"two")
    with pytest.raises(MergeError, match="have companions of different starts"):
        merge_caches(paths, tmp_path / "merged")
