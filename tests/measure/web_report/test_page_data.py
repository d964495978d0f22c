"""What a page shows of a cache, as values; and what no text of a cache can do to the page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.build.cache.contents import CacheContents
from precast.build.cache.pack import uncompressed
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.values import replace
from precast.loader.resolve.cache import Cache
from precast.measure.annotate import Measurements, add_evidence, tune
from precast.measure.bench.report import Report, Row
from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings
from precast.measure.web_report.page import page
from precast.measure.web_report.page_data import PageData, page_data
from tests.helpers.caches import SCALE_KEYS, CacheWriter, Native, artifact
from tests.helpers.packed_caches import Built


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two variants of one op that differ in a tuned key, and one of another dtype."""
    native = Native(tmp_path / "native")
    native.folder.mkdir()
    writer = CacheWriter(name="shown")
    writer.runtime(*native.runtime())
    rows = []
    for dtype, threads in (("float32", 128), ("float32", 256), ("bfloat16", 128)):
        blob = writer.keep(native.entry(offset=threads + len(dtype)))
        rows.append(artifact(blob, {"dtype": dtype, "layout": "row", "threads": threads}))
    writer.op("scale", rows, keys=SCALE_KEYS)
    return writer.write(tmp_path / "cache")


def key_of(path: Path, dtype: str, threads: int) -> str:
    wanted = {"dtype": dtype, "layout": "row", "threads": threads}
    (found,) = [a.key for a in Cache(path).op("scale").artifacts if dict(a.config) == wanted]
    return found


def of(found: PageData, key: str) -> Any:
    (one,) = [v for v in found.variants if v.key == key]
    return one


def test_the_line_of_a_program_gets_just_this_variant(place: Path) -> None:
    found = page_data(CacheContents.open(place))
    assert of(found, key_of(place, "float32", 256)).get == "loader.get('scale', {'dtype': 'float32', 'threads': 256})"
    for one in found.variants:
        config = dict(eval(one.get.removeprefix("loader.get('scale', ").removesuffix(")")))
        full = {"layout": "row", "threads": 128, **config}
        assert full == dict(one.config)


def test_contests_are_between_variants_that_a_caller_does_not_tell_apart(place: Path) -> None:
    fast, slow, other = (key_of(place, *one) for one in (("float32", 256), ("float32", 128), ("bfloat16", 128)))
    measured = [
        Measured(
            gpu="NVIDIA H200", capability=Capability(9, 0), problem={"n": n}, times={fast: n, slow: 2.0 * n, other: 5}
        )
        for n in (8, 64)
    ]
    tune(Cache(place), [Measurements({"scale": tuple(measured)})])
    found = page_data(CacheContents.open(place))
    assert [(one.config, len(one.problems)) for one in found.contests] == [
        ("{dtype: bfloat16, layout: row}", 2), ("{dtype: float32, layout: row}", 2),
    ]  # fmt: skip
    sizes, times = found.contests[1].problems[1]
    assert sizes == {"n": 64} and [found.variants[place].key for place, _ in times] == [fast, slow]
    assert (of(found, fast).wins, of(found, fast).problems, of(found, slow).wins) == (2, 2, 0)


def test_evidence_is_told_with_where_and_when(place: Path) -> None:
    key = key_of(place, "float32", 128)
    where = {"check": "verify", "gpu": "NVIDIA H200", "date": "2026-11-22T10:00:00Z"}
    add_evidence(Cache(place), {"scale": {key: {**where, "failed": ["out differs"]}}})
    one = of(page_data(CacheContents.open(place)), key)
    assert (one.verified, one.emulated, one.wrong) == ("NVIDIA H200, 2026-11-22", "", "out differs")
    assert not of(page_data(CacheContents.open(place)), key_of(place, "bfloat16", 128)).verified


def test_an_emulation_is_not_a_verification(place: Path) -> None:
    key = key_of(place, "float32", 128)
    add_evidence(Cache(place), {"scale": {key: {"check": "emulate", "date": "2026-11-23T10:00:00Z", "failed": []}}})
    one = of(page_data(CacheContents.open(place)), key)
    assert (one.verified, one.emulated, one.wrong) == ("", "2026-11-23", "")


def test_a_call_has_the_arguments_of_the_signature_and_the_page_its_time(place: Path) -> None:
    found = page_data(CacheContents.open(place), seconds=1700000000)
    one = of(found, key_of(place, "float32", 256))
    assert one.call == "kernel(x, y, factor)" and one.signature.startswith("(x: float32[")
    assert one.host.endswith(", glibc 2.17") and found.built == "2023-11-14 22:13 UTC"
    assert not page_data(CacheContents.open(place)).built


def test_shares_of_the_roofline_come_from_a_bench(place: Path) -> None:
    key = key_of(place, "float32", 128)
    timing = Timing(problem={"n": 8}, microseconds=200.0, spread=1.0, bytes=400_000_000, written=0)
    row = Row(op="scale", key=key, target="sm_90a", config={"dtype": "float32"}, timing=timing)
    ceilings = Ceilings(bandwidth=4000.0, rates={}, l2=0)
    bench = Report(gpu="NVIDIA H200", capability=Capability(9, 0), ceilings=ceilings, rows=(row,))
    found = page_data(CacheContents.open(place), bench=bench)
    assert of(found, key).share == 0.5
    (timed,) = found.timed
    assert (timed.microseconds, timed.least, timed.bound, timed.problem) == (200.0, 100.0, "memory", "n 8")
    assert found.variants[timed.position].key == key and found.timed_on == "NVIDIA H200"


def test_what_changed_is_told_of_each(place: Path, tmp_path: Path) -> None:
    native = Native(tmp_path / "native")
    writer = CacheWriter(name="before")
    writer.runtime(*native.runtime())
    blob = writer.keep(native.entry(offset=7))
    configs: list[Mapping[str, Any]] = [
        {"dtype": "float32", "layout": "row", "threads": 128},
        {"dtype": "float16", "layout": "row", "threads": 128},
    ]
    writer.op("scale", [artifact(blob, config) for config in configs], keys=SCALE_KEYS)
    found = page_data(CacheContents.open(place), against=CacheContents.open(writer.write(tmp_path / "before")))
    assert of(found, key_of(place, "float32", 128)).change == "changed"
    assert any(text.startswith("content ") for text in of(found, key_of(place, "float32", 128)).changes)
    assert of(found, key_of(place, "bfloat16", 128)).change == "added"
    assert [text for text in found.removed if "float16" in text] and found.against == "before"
    assert found.changed_facts["content"] == 1 and found.unchanged == 0 and len(found.against_digest) == 64


def test_the_columns_are_in_the_order_of_the_author_and_what_is_tuned_comes_last(tmp_path: Path) -> None:
    writer = CacheWriter(name="ordered")
    native = Native(tmp_path)
    writer.runtime(*native.runtime())
    keys = (Key(name="tile", type="int", tuned=True), Key(name="n", type="int"), Key(name="dtype", type="dtype"))
    config = {"tile": 64, "n": 8, "dtype": "float32"}
    writer.op("scale", [artifact(writer.keep(native.entry()), config)], keys=keys)
    found = page_data(CacheContents.open(writer.write(tmp_path / "cache")))
    assert found.keys == {"scale": ("n", "dtype", "tile")} and found.tuned == {"scale": ("tile",)}


def test_bytes_are_those_of_variants_of_ptx_and_of_what_they_share(tmp_path: Path) -> None:
    text = b"// the code" * 50

    def kept(a: Artifact) -> Artifact:
        return replace(a, ptx=uncompressed(text))

    contents = CacheContents.open(Built(change=kept, texts=(text,)).write(tmp_path))
    found = page_data(contents)
    assert found.ptx == contents.blobs[uncompressed(text).sha256].stored > 0
    assert found.stored == found.ptx + found.shared + sum(one.stored for one in found.variants)
    assert found.shared > 0


@given(st.text(), st.text())
def test_no_text_of_a_cache_leaves_its_place(name: str, doc: str) -> None:
    nothing = PageData(name=name, digest="0", toolchain={}, stored=0, size=0, docs={"op": doc}, variants=())
    text = page(nothing)
    (held,) = re.findall(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)
    assert json.loads(held) == nothing.to_json()
    assert text.count("</script>") == 2 and text.count("<title>") == 1 and "@DATA@" not in text.replace(held, "")
