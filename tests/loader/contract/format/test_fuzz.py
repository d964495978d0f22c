"""Readers under fire: whatever the bytes, a value or a typed error; and what was read, written again, is the same.

CI bounds the time by PRECAST_FUZZ_EXAMPLES.
"""

from __future__ import annotations

import copy
import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast.build.plan.manifest import parse_manifest
from precast.loader import PrecastError
from precast.loader.contract.format.index import Index
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.resolve.pins import read_pins
from tests.helpers.caches import CacheWriter, artifact

EXAMPLES = int(os.environ.get("PRECAST_FUZZ_EXAMPLES", "400"))
bounded = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def an_index() -> Any:
    writer = CacheWriter(name="fuzzed")
    blob = writer.keep(b"code")
    row = artifact(blob, {"dtype": "bfloat16", "layout": "row", "threads": 1})
    writer.op("scale", [row])
    table = {"gpu": "H", "capability": "9.0", "axes": ["m"], "variants": [{"key": row.key}]}
    rows = ["8: 1"]
    return {**json.loads(writer.ops["scale"].encode()), "tuning": [{**table, "rows": rows}]}


OP = an_index()
ROOT = json.loads(
    Index(name="fuzzed", toolchain={"apache-tvm-ffi": "0.1.15"}, runtimes=(), ops={}, dictionary=None).encode()
)
MANIFEST = {
    "version": 1,
    "name": "fuzzed",
    "targets": ["sm_90a"],
    "kernels": [{"kernel": "rmsnorm", "config": {"dtype": ["bf16"], "hidden": [1, 2]}, "tuned": {"threads": [128]}}],
}


@st.composite
def damaged(draw: st.DrawFn, good: Any) -> bytes:
    """A good file with a few values replaced, removed or added, then perhaps a few bytes changed."""
    data = copy.deepcopy(good)
    for _ in range(draw(st.integers(0, 3))):
        inner = data
        while isinstance(inner, (dict, list)) and inner:
            keys = sorted(inner) if isinstance(inner, dict) else range(len(inner))
            key = draw(st.sampled_from(list(keys)))
            if not isinstance(inner[key], (dict, list)) or not inner[key] or draw(st.booleans()):
                change = draw(st.sampled_from(["replace", "remove", "add"]))
                if change == "remove":
                    del inner[key]
                elif change == "add" and isinstance(inner, dict):
                    inner[draw(st.text(max_size=8))] = draw(json_values)
                else:
                    inner[key] = draw(json_values)
                break
            inner = inner[key]
    text = bytearray(json.dumps(data).encode())
    for _ in range(draw(st.integers(0, 2))):
        text[draw(st.integers(0, len(text) - 1))] = draw(st.integers(0, 255))
    return bytes(text)


@bounded
@given(damaged(OP) | st.binary(max_size=60))
def test_the_reader_of_an_op(data: bytes) -> None:
    try:
        op = OpReader.decode(data, op="scale")
        artifacts, tuning = op.artifacts, op.tuning
    except PrecastError as error:
        assert str(error).isprintable() or "\n" in str(error)
        return
    index = op.index
    assert sorted(a.key for a in artifacts) == sorted(a.key for a in index.artifacts)
    assert OpReader.decode(index.encode(), op="scale").index == index and index.tuning == tuning


@bounded
@given(damaged(ROOT) | st.binary(max_size=60))
def test_the_reader_of_the_root(data: bytes) -> None:
    try:
        index = Index.decode(data)
    except PrecastError:
        return
    assert Index.decode(index.encode()) == index


@bounded
@given(damaged(MANIFEST) | st.binary(max_size=60) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "replace")))
def test_the_reader_of_manifests(data: bytes) -> None:
    from pathlib import Path

    try:
        parse_manifest(data, Path("m.yaml"))
    except PrecastError as error:
        assert "m.yaml" in str(error)


@bounded
@given(st.text(max_size=120) | st.from_regex(r"[a-z-]{0,4}=[0-9a-f]{62,65}", fullmatch=True))
def test_the_reader_of_pins(text: str) -> None:
    try:
        pins = read_pins(text)
    except PrecastError:
        return
    assert (pins is None) == (not text.strip())


def test_the_good_files_are_good() -> None:
    from pathlib import Path

    assert OpReader.decode(json.dumps(OP).encode(), op="scale").tuning and Index.decode(json.dumps(ROOT).encode())
    assert parse_manifest(json.dumps(MANIFEST).encode(), Path("m.yaml"))
    with pytest.raises(PrecastError):
        OpReader.decode(json.dumps({**OP, "more": 1}).encode(), op="scale")
