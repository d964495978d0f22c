"""Caches that know an op by other keys, caches with damaged content, and what holds the decoder."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import zstandard

from precast import loader
from precast.loader.errors import IntegrityError, VariantNotFound
from precast.loader.format.config import Key
from precast.loader.resolve import cache as reader
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import Request
from precast.loader.resolve.explanation import manifest_lines
from precast.loader.resolve.machine import Machine, this_host
from precast.loader.resolve.resolution import resolve
from tests.helpers.caches import SCALE_KEYS, CacheWriter, Native, artifact

MODE = Key(name="mode", type="str")


@dataclass(frozen=True)
class Two:
    """Two caches with the op ``scale``: the second has the key ``mode``, which the first does not know."""

    first: Path
    second: Path


@pytest.fixture
def two(path: Path, native: Native, tmp_path: Path) -> Two:
    writer = CacheWriter(name="modes")
    writer.runtime(*native.runtime())
    config = {"dtype": "float32", "layout": "row", "threads": 128, "mode": "fast"}
    writer.op("scale", [artifact(writer.keep(native.entry()), config)], keys=(*SCALE_KEYS, MODE))
    return Two(path, writer.write(tmp_path / "modes"))


def test_the_lines_for_a_missing_variant_are_of_a_cache_that_knows_its_keys(two: Two, use: Callable[..., None]) -> None:
    use(two.first, two.second)
    with pytest.raises(VariantNotFound, match=r"config: \{dtype: float32, mode: exact\}"):
        loader.get("scale", {"dtype": "fp32", "mode": "exact"}, target="sm_90a")


def test_a_candidate_has_the_signature_of_its_artifact(two: Two, use: Callable[..., None]) -> None:
    use(two.second)
    (one,) = loader.variants("scale")
    assert one.signature == one.artifact.signature


def test_the_lines_for_an_op_that_no_cache_has() -> None:
    machine: Machine = this_host()
    found = resolve(Request(op="mine.op", config={"n": 1}), machine, [])
    assert manifest_lines(found) == ["kernels:", "  - kernel: mine.op", "    config: {n: 1}"]


def test_a_cache_says_which_it_is(path: Path) -> None:
    assert repr(Cache(path)) == f"<Cache 'demo' at '{path}', 2 ops>"


def test_an_index_that_counts_other_artifacts_than_the_file_lists(path: Path) -> None:
    index = json.loads((path / "index.json").read_text())
    count = index["ops"]["scale"]["artifacts"]
    index["ops"]["scale"]["artifacts"] = count + 1
    (path / "index.json").write_text(json.dumps(index))
    with pytest.raises(IntegrityError, match=f"it lists {count} artifacts, not {count + 1}"):
        Cache(path).op("scale")


def test_other_bytes_of_the_right_size_are_refused(path: Path) -> None:
    cache = Cache(path)
    blob = cache.op("scale").artifacts[0].blob
    other = zstandard.ZstdCompressor(level=3).compress(b"\0" * blob.size)
    wrong = type(blob)(sha256=blob.sha256, size=blob.size, stored=len(other), encoding=blob.encoding)
    (path / "blobs" / blob.sha256).write_bytes(other)
    with pytest.raises(IntegrityError, match="its content is not what the index promises"):
        cache.read(wrong)


@pytest.mark.parametrize("installed", [True, False])
def test_the_decoder_alone_is_imported_where_it_can_be_found(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the package, whose import takes longer."""
    monkeypatch.delitem(sys.modules, "zstandard")
    if not installed:
        monkeypatch.setattr(reader, "locate", lambda name: None)
    decoder = reader._zstandard.__wrapped__()
    data = zstandard.ZstdCompressor().compress(b"text")
    assert decoder.ZstdDecompressor().decompress(data) == b"text"
    assert ("zstandard" in sys.modules) is not installed
