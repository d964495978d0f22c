"""Where the PTX of an artifact is: in the cache, or in the store that it was built from."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from precast.build.cache.contents import CacheContents
from precast.build.store.store import Store, compressed
from precast.build.wheel.wheel import for_host
from precast.kernels.authoring.declare import Declaration
from precast.loader.resolve.cache import Cache
from precast.measure.launching.cases import LeftOut, Selected
from precast.measure.verification.emulations import with_ptx
from precast.measure.verification.kept_ptx import KeptPtx, NoPtx
from tests.helpers.builds import manifest, module, precast, tree

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]

ADD = "def add(n: int):\n    return compile_add(n)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module, its manifest, a store and the caches that all tests here read."""
    return tmp_path_factory.mktemp("ptx")


def built(folder: Path, name: str, *words: object) -> Path:
    module(folder, "mine", ADD)
    done = precast(
        folder / "store", "build", manifest(folder, {"mine:add": [1, 2]}), "-o", folder / name, "-j", 1, *words
    )
    assert done.returncode == 0, done.stderr
    return folder / name


def own_store(folder: Path, path: Path) -> Store:
    """A store that a test may damage."""
    return Store(shutil.copytree(folder / "store", path / "store"))


def test_a_cache_keeps_ptx_where_that_is_requested_and_its_kernels_stay_the_same(folder: Path) -> None:
    plain, kept = built(folder, "plain"), built(folder, "kept", "--keep", "ptx")
    blobs = {name: data for name, data in tree(plain).items() if name.startswith("blobs/")}
    assert blobs.items() < tree(kept).items()
    artifacts = Cache(kept).op("user.add").artifacts
    nowhere = Store(folder / "nowhere")
    for artifact, other in zip(artifacts, Cache(plain).op("user.add").artifacts, strict=True):
        assert other.ptx is None
        text = KeptPtx(Cache(kept), nowhere).text("user.add", artifact)
        assert f".entry {artifact.resources[0].kernel}" in text
        assert KeptPtx(Cache(plain), Store(folder / "store")).text("user.add", other) == text
    assert CacheContents.open(kept).verify().damaged == {}
    stored = CacheContents.open(kept).stored_blobs()
    assert for_host(CacheContents.open(kept), stored, artifacts[0].host.arch if artifacts[0].host else "") == {
        **tree(kept)
    }
    again = built(folder, "plain")
    assert tree(again) == tree(plain)


def test_without_its_ptx_an_artifact_is_not_emulated_and_the_error_has_the_solution(
    folder: Path, tmp_path: Path
) -> None:
    cache = Cache(built(folder, "plain"))
    first, second = cache.op("user.add").artifacts
    cases: list[Selected | LeftOut] = [
        Selected("user.add", artifact, Declaration(op="user.add", keys=())) for artifact in (first, second)
    ]
    with pytest.raises(NoPtx, match="build the cache with --keep ptx, or name the store that it was built from"):
        with_ptx(cache, Store(tmp_path / "nowhere"), cases)
    store = own_store(folder, tmp_path)
    assert with_ptx(cache, store, cases) == cases
    key = KeptPtx(cache, store)._record("user.add", first)
    store.record_file(key).unlink()
    left_out, kept = with_ptx(cache, Store(store.path), cases)
    assert isinstance(left_out, LeftOut) and "--keep ptx" in left_out.reason and kept == cases[1]


def test_the_ptx_of_other_code_is_no_evidence(folder: Path, tmp_path: Path) -> None:
    """A record of the same key whose product is not the artifact, as when a store was changed, gives no verdict."""
    cache = Cache(built(folder, "plain"))
    store, artifact = own_store(folder, tmp_path), cache.op("user.add").artifacts[0]
    kept = KeptPtx(cache, store)
    key = kept._record("user.add", artifact)
    record = store.read(key)
    assert record is not None and kept.text("user.add", artifact)
    other = replace(record, products=tuple(replace(p, library=p.library + b"other") for p in record.products))
    store.write(key, "record", compressed(other))
    with pytest.raises(NoPtx, match=r"has other code for \w+ than the cache .*: build the cache again with --keep ptx"):
        kept.text("user.add", artifact)
