"""``check``: every artifact that is asked for is there, for every host, and every byte of the cache is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.build.cache.contents import CacheContents
from precast.build.cache.coverage import Coverage, coverage
from precast.build.cache.merge import merge_caches
from precast.cli.make.check import lines
from precast.loader.contract.format.index import Index
from precast.loader.errors import IntegrityError, PrecastError
from precast.loader.resolve.cache import Cache
from tests.helpers.packed_caches import AARCH64, ARM, RUNTIMES, X86, Built, code_of, damage, scale_plan

BOTH = ("bfloat16", "float16")


def check(path: Path, *dtypes: str, emit: tuple[str, ...] = ("object",)) -> Coverage:
    return coverage(scale_plan(*dtypes or BOTH, emit=emit), CacheContents.open(path))


def two_hosts(folder: Path, *, arm: tuple[str, ...], kind: str = "object") -> Path:
    """A cache with both dtypes for x86-64, and some for aarch64."""
    entry = (AARCH64 / "entry.so").read_bytes()
    parts = [
        Built(kind=kind).write(folder / "x86"),
        Built(host=ARM, dtypes=arm, kind=kind, content=lambda d: entry + d.encode()).write(folder / "arm"),
    ]
    merge_caches(parts, folder / "both")
    return folder / "both"


def test_a_whole_cache(tmp_path: Path) -> None:
    cache = Built().write(tmp_path / "cache")
    found = check(cache)
    assert (found.complete, found.present, found.extra) == (True, 2, ())
    read = found.verified
    files = [p.stat().st_size for p in cache.rglob("*") if p.is_file()]
    assert read.files == len(files)
    assert read.stored == sum(files) - (cache / "index.json").stat().st_size
    assert read.size > read.stored > 0 and read.seconds > 0
    assert f"checked {read.files} files" in "\n".join(lines(found))


def test_what_is_missing_and_what_is_extra(tmp_path: Path) -> None:
    found = check(Built(dtypes=("float16", "float32")).write(tmp_path / "cache"))
    (missing,) = found.missing
    assert missing.variant.config["dtype"] == "bfloat16" and missing.reason == "it is not in the cache"
    assert ["float32" in extra.config for extra in found.extra] == [True]
    data = json.loads(json.dumps(found.to_json()))
    assert [(m["op"], m["kind"], m["host"]) for m in data["missing"]] == [("scale", "object", "x86_64")]
    assert data["extra"] == ['scale {"dtype":"float32","layout":"row","threads":128} sm_90a object']


@pytest.mark.parametrize("dtype", BOTH)
def test_a_flipped_byte_is_reported_with_the_artifact_that_it_costs(tmp_path: Path, dtype: str) -> None:
    cache = Built().write(tmp_path / "cache")
    blob = damage(cache, code_of(dtype))
    found = check(cache)
    assert not found.complete and found.present == 1
    (missing,) = found.missing
    assert missing.variant.config["dtype"] == dtype and f"{blob} is damaged" in missing.reason
    assert list(found.verified.damaged) == [blob.name]


def test_damage_in_what_no_manifest_asks_for_is_reported_too(tmp_path: Path) -> None:
    cache = Built(dtypes=("float16", "float32")).write(tmp_path / "cache")
    blob = damage(cache, code_of("float32"))
    found = check(cache, "float16")
    assert found.missing == () and not found.complete
    assert any(line.startswith(f"damaged: {blob}") for line in lines(found))


@pytest.mark.parametrize("how", [damage, lambda path, content: next(iter(_remove(path, content)))], ids=["bit", "gone"])
def test_without_its_runtime_library_no_artifact_is_there(tmp_path: Path, how: Callable[[Path, bytes], Path]) -> None:
    cache = Built().write(tmp_path / "cache")
    how(cache, RUNTIMES[X86].code)
    found = check(cache)
    assert found.present == 0
    assert all("the runtime library of its host cannot be used" in m.reason for m in found.missing)


def _remove(path: Path, content: bytes) -> list[Path]:
    from precast.loader.contract.format.index import digest

    blob = path / "blobs" / digest(content)
    blob.unlink()
    return [blob]


def test_a_cache_that_lists_no_runtime_library(tmp_path: Path) -> None:
    cache = Built().write(tmp_path / "cache")
    index = Cache(cache).index
    bare = Index(name=index.name, toolchain=index.toolchain, runtimes=(), ops=index.ops, dictionary=index.dictionary)
    (cache / "index.json").write_bytes(bare.encode())
    found = check(cache)
    assert found.present == 0
    assert {m.reason for m in found.missing} == {"the cache has no runtime library for any host"}


def test_every_host_must_have_every_library(tmp_path: Path) -> None:
    found = check(two_hosts(tmp_path, arm=("bfloat16",)))
    assert found.hosts == ("aarch64", "x86_64") and found.present == 3
    (missing,) = found.missing
    assert missing.artifact.host == "aarch64" and missing.variant.config["dtype"] == "float16"
    text = "\n".join(lines(found))
    assert "(object, aarch64), listed at m.yaml:1:1: it is not in the cache" in text
    assert "3 of 4 artifacts present" in text


def test_two_hosts_that_have_all_are_complete(tmp_path: Path) -> None:
    found = check(two_hosts(tmp_path, arm=BOTH))
    assert found.complete and found.present == 4


def test_device_code_is_for_every_host(tmp_path: Path) -> None:
    found = check(Built(kind="cubin").write(tmp_path / "cache"), emit=("cubin",))
    assert found.complete and found.present == 2


def test_a_damaged_list_of_an_op_is_an_error(tmp_path: Path) -> None:
    cache = Built().write(tmp_path / "cache")
    listed = cache / "ops" / "scale.json"
    listed.write_bytes(listed.read_bytes().replace(b"float16", b"float61"))
    with pytest.raises(IntegrityError, match=r"ops/scale\.json is damaged"):
        CacheContents.open(cache)


def test_no_cache_at_all(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        with pytest.raises(PrecastError, match=r"give the (folder|directory)"):
            CacheContents.open(path)
