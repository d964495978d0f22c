"""Recordings as manifests: what is built is what was recorded, in one order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.attach.builder.recorded_manifest import manifest_of, read_recorded_manifest
from precast.attach.recordings.recording import Recorded
from precast.build.errors import ManifestError
from precast.build.plan.describer import Description
from precast.build.plan.manifest import parse_manifest
from precast.build.plan.plan import make_plan
from precast.loader.contract.format.config import Key, to_json
from tests.helpers.variants import variant

PLACE = "quack.softmax:Softmax.compile"
OP = "attach.quack.softmax_softmax_compile"
TEXTS = st.sampled_from(
    ["", "on", "null", "1", "1e3", "0x10", "a: b", "#", "$cutlass:BFloat16", "$str:$x", "é", "[", "x y"]
)
PLAIN = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6).map(abs) | TEXTS
FORMS = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=6)


def recorded(dtype: Any, n: Any = 1, call: dict[str, Any] | None = None) -> Recorded:
    return Recorded(library="quack", compile=PLACE, config={"dtype": dtype, "n": n}, call=call)


def text_of(all_of_them: Iterable[Recorded]) -> str:
    return manifest_of(all_of_them, name="mine", targets=["sm_90a"])


def read(folder: Path, text: str) -> tuple[Recorded, ...]:
    path = folder / "recorded.yaml"
    path.write_text(text)
    return read_recorded_manifest(path).recorded


@given(st.lists(st.tuples(FORMS, FORMS), min_size=1, max_size=4))
def test_a_manifest_plans_exactly_the_recorded_keys(pairs: list[tuple[Any, Any]]) -> None:
    keys = [recorded(*pair) for pair in pairs]
    manifest = parse_manifest(text_of(keys).encode(), Path("m.yaml"))
    described = Description(op=OP, source=f"{PLACE}@quack", keys=(Key(name="dtype"), Key(name="n")), declared=True)
    plan = make_plan([manifest], {entry.ref: described for entry in manifest.entries})
    planned = [json.dumps({name: to_json(value) for name, value in v.config.items()}) for v in plan.variants]
    assert sorted(planned) == sorted({json.dumps(dict(one.config)) for one in keys})


@given(
    st.lists(st.tuples(TEXTS, st.integers(0, 3), st.none() | st.integers(0, 2)), min_size=1, max_size=5), st.randoms()
)
def test_the_order_of_recordings_does_not_matter(rows: list[tuple[str, int, int | None]], random: Any) -> None:
    keys = [recorded(text, n, None if call is None else {"x": call}) for text, n, call in rows]
    shuffled = list(keys)
    random.shuffle(shuffled)
    assert text_of(shuffled) == text_of(keys)


def test_entries_are_sorted() -> None:
    keys = [recorded("b"), recorded("a", 2), recorded("a", 1)]
    lines = [line.strip() for line in text_of(keys).splitlines()]
    assert [line for line in lines if line.startswith(("dtype:", "n:"))] == [
        "dtype: a", "n: 1", "dtype: a", "n: 2", "dtype: b", "n: 1",
    ]  # fmt: skip


def test_a_manifest_reads_back_as_what_was_recorded(tmp_path: Path) -> None:
    keys = (recorded([1, ["$list"], None]), recorded("x", [], {"x": ["$tensor", "bfloat16", [2], [1], False]}))
    assert read(tmp_path, text_of(keys)) == tuple(sorted(keys, key=lambda one: one.text))


def test_lists_of_an_edited_manifest_multiply(tmp_path: Path) -> None:
    text = text_of([recorded("a", 1)]).replace(" n: 1", " n: [1, 2]").replace("dtype: a", "dtype: [a, b]")
    assert {(one.config["dtype"], one.config["n"]) for one in read(tmp_path, text)} == {
        ("a", 1), ("a", 2), ("b", 1), ("b", 2),
    }  # fmt: skip


@pytest.mark.parametrize(
    "line", ["targets: [sm_100a]", "env: {A: b}", "exclude: [{n: 2}]", "parts: [a]", "skip_unsupported: true"]
)
def test_what_a_recording_cannot_hold_is_not_dropped(tmp_path: Path, line: str) -> None:
    with pytest.raises(ManifestError, match="record into another file"):
        read(tmp_path, text_of([recorded("a")]) + f"    {line}\n")


def test_a_variant_with_many_or_long_values_is_named_shortly_and_differently() -> None:
    many = {f"key{i:02}": i for i in range(40)}
    one, other = (replace(variant(1), config={**many, "key39": last}) for last in (1, 2))
    assert str(one).startswith("mine.op(key00=0, key01=1, ")
    assert "key20=20, 19 more, #" in str(one)
    assert str(one) != str(other)
    long, longer = (replace(variant(1), config={"source": "5" * 60 + end}) for end in "ab")
    assert len(str(long)) < 90
    assert str(long) != str(longer)
    assert str(variant(1)) == "mine.op(n=1) for sm_90a"


def test_of_two_calls_of_one_key_the_same_is_kept_in_either_order() -> None:
    one, other = recorded("a", 1, {"x": 1}), recorded("a", 1, {"x": 2})
    assert text_of([one, other]) == text_of([other, one])
