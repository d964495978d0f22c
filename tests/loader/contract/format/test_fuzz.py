"""Readers under fire: whatever the bytes, a value or a typed error; and what was read, written again, is the same.

CI bounds the time by PRECAST_FUZZ_EXAMPLES.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader import PrecastError
from precast.loader.contract.format.index import Index
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.resolve.pins import read_pins
from tests.helpers.caches import CacheWriter, artifact
from tests.helpers.hostile.damaged import bounded, damaged


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
@given(st.text(max_size=120) | st.from_regex(r"[a-z-]{0,4}=[0-9a-f]{62,65}", fullmatch=True))
def test_the_reader_of_pins(text: str) -> None:
    try:
        pins = read_pins(text)
    except PrecastError:
        return
    assert (pins is None) == (not text.strip())


def test_the_good_files_are_good() -> None:
    assert OpReader.decode(json.dumps(OP).encode(), op="scale").tuning and Index.decode(json.dumps(ROOT).encode())
    with pytest.raises(PrecastError):
        OpReader.decode(json.dumps({**OP, "more": 1}).encode(), op="scale")
