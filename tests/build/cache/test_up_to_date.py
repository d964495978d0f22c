"""What a build takes from the cache that it replaces: all of it, its compressed blobs, or nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from precast.build.cache.blob_reuse import BlobReuse
from precast.build.cache.compress import store_all
from precast.build.cache.up_to_date import inputs_digest, is_up_to_date, mark_up_to_date
from precast.build.disk.memo import Memo
from precast.build.inputs.sources import SourceDigests
from precast.build.link.toolchain import find_toolchain
from precast.build.measurements.tuning_file import TuningFile
from precast.build.plan.plan import OpPlan, Plan
from precast.build.plan.variant import Variant
from precast.loader.contract.format.index import digest
from tests.helpers.tuning.files import gpu
from tests.helpers.variants import variant

PLAN = Plan(name="mine", variants=(variant(1),), ops={"mine.op": OpPlan(keys=())})
CHANGES: dict[str, dict[str, Any]] = {
    "order": {"rank": 1},
    "kinds": {"emit": ("cubin",)},
    "parts": {"parts": ("first",)},
    "function": {"source": "mine:other"},
    "registered": {"registered": True},
    "assumed": {"assumed": {"multiprocessor_count": 78}},
    "speed": {"speed_only": ("l2_cache_size",)},
}


@cache
def sources() -> SourceDigests:
    """The sources of one moment: each file is read once."""
    return SourceDigests([])


def inputs(plan: Plan = PLAN, record: str = "0" * 64, dictionary: bytes | None = None, **tools: str) -> str:
    toolchain = find_toolchain()
    records = {one.identity_on_gpu: record for one in plan.variants}
    toolchain = replace(toolchain, versions={**toolchain.versions, **tools})
    return inputs_digest(plan, records, toolchain, sources(), dictionary)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_a_variant_writes_the_cache_again(change: dict[str, Any]) -> None:
    changed: Variant = replace(variant(1), **change)
    assert inputs(replace(PLAN, variants=(changed,))) != inputs()


def test_whatever_else_decides_its_bytes_writes_the_cache_again() -> None:
    made = [
        inputs(),
        inputs(replace(PLAN, name="other")),
        inputs(replace(PLAN, ops={"mine.op": OpPlan(keys=(), doc="text")})),
        inputs(replace(PLAN, tuning=TuningFile((gpu(),)))),
        inputs(record="1" * 64),
        inputs(dictionary=b"words"),
        inputs(ld="0.0"),
    ]
    assert len(set(made)) == len(made)


def test_only_the_cache_that_was_written_is_up_to_date(tmp_path: Path) -> None:
    memo, folder = Memo(tmp_path / "memo"), tmp_path / "cache"
    folder.mkdir()
    (folder / "index.json").write_bytes(b"{}")
    assert not is_up_to_date(memo, "0" * 64, folder)
    mark_up_to_date(memo, "0" * 64, {"index.json": b"{}"})
    assert is_up_to_date(memo, "0" * 64, folder)
    assert not is_up_to_date(memo, "1" * 64, folder)
    (folder / "index.json").write_bytes(b"[]")
    assert not is_up_to_date(memo, "0" * 64, folder)


def test_blobs_are_reused_while_they_are_what_compressing_would_give(tmp_path: Path) -> None:
    content = b"a library" * 100
    contents = {digest(content): content}
    reuse = BlobReuse(tmp_path / "cache", Memo(tmp_path / "memo"))
    (stored,) = store_all(contents, None, 1, reuse).values()
    blob = tmp_path / "cache" / "blobs" / digest(content)
    blob.parent.mkdir(parents=True)
    assert reuse.compressed("method", None, contents) == {}
    reuse.keep_compressed("method", None, {digest(content): stored.data})
    blob.write_bytes(stored.data)
    assert reuse.compressed("method", None, contents) == {digest(content): stored.data}
    assert reuse.compressed("another", None, contents) == reuse.compressed("method", b"words", contents) == {}
    blob.write_bytes(stored.data[:-1] + b"!")
    assert reuse.compressed("method", None, contents) == {}, "it is damaged"
