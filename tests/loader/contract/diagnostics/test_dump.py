"""The header of a dump: written and read back; nothing that does not agree with itself is read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast.loader.contract.diagnostics.dump import MOST_BYTES, Block, Dump, DumpedArgument, Layout, span
from precast.loader.contract.diagnostics.dump_folder import (
    HEADER,
    block_name,
    call_name,
    find_call,
    next_call,
    read_block,
    read_dump,
)
from precast.loader.contract.format.signature import Argument, Signature
from precast.loader.contract.format.target import Target
from precast.loader.contract.values import replace
from precast.loader.errors import ConfigError, FormatError

DTYPES = st.sampled_from(["float32", "bfloat16", "int8", "float4_e2m1fnx2", "float8_e4m3fn", "bool"])
SCALARS = st.one_of(
    st.just(DumpedArgument(kind="none")),
    st.builds(lambda v: DumpedArgument(kind="bool", value=v), st.booleans()),
    st.builds(lambda v: DumpedArgument(kind="int", value=v), st.integers(-(2**63), 2**64 - 1)),
    st.builds(lambda v: DumpedArgument(kind="float", value=v), st.floats(allow_nan=False)),
    st.builds(lambda v: DumpedArgument(kind="text", value=v), st.text(max_size=5)),
    st.builds(lambda k: DumpedArgument(kind=k, value="int"), st.sampled_from(["stream", "pointer", "other"])),
)


@st.composite
def tensors(draw: st.DrawFn) -> DumpedArgument:
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=3)))
    strides = tuple(draw(st.integers(0, 40)) for _ in shape)
    dtype = draw(DTYPES)
    return DumpedArgument(kind="tensor", layout=Layout(shape=shape, strides=strides, dtype=dtype, block=0, offset=0))


@st.composite
def dumps(draw: st.DrawFn) -> Dump:
    items = st.lists(SCALARS | tensors(), max_size=2).map(lambda i: DumpedArgument(kind="tuple", items=tuple(i)))
    arguments = tuple(draw(st.lists(SCALARS | tensors() | items, max_size=4)))
    most = max([layout.size for one in arguments for layout in one.layouts()], default=0)
    return Dump(
        op="scale",
        config={"dtype": "float32", "tile": (1, 2)},
        target=Target.parse("sm_90a"),
        key="ab" * 32,
        cache="demo",
        digest="cd" * 32,
        signature=Signature(arguments=tuple(Argument(name=f"a{n}", kind="const") for n in range(len(arguments)))),
        process=7,
        number=3,
        stream=True,
        arguments=arguments,
        blocks=(Block(address=4096, size=most, device=(1, 0), left_out=draw(st.sampled_from(["", "too large"]))),),
    )


@given(dumps())
def test_what_was_written_is_read(dump: Dump) -> None:
    assert Dump.decode(dump.encode()) == dump


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        Dump.decode(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a JSON value: what holds it, and its key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [place for key in keys for place in ((value, key), *places(value[key]))]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(dumps(), st.data())
def test_a_changed_header_is_read_or_refused_and_stays_in_its_blocks(dump: Dump, data: Any) -> None:
    value = json.loads(dump.encode())
    holder, key = data.draw(st.sampled_from(places(value)))
    holder[key] = data.draw(JSON | st.integers(2**60, 2**70) | st.integers(-9, 9))
    try:
        found = Dump.decode(json.dumps(value).encode())
    except FormatError:
        return
    assert sum(block.size for block in found.blocks) <= MOST_BYTES and len(found.names) == len(found.arguments)
    for one in found.arguments:
        for layout in one.layouts():
            assert layout.offset >= 0 and layout.offset + layout.size <= found.blocks[layout.block].size


def one_tensor(**changes: Any) -> Any:
    layout = Layout(shape=(4,), strides=(1,), dtype="float32", block=0, offset=0)
    dump = Dump(
        op="scale", config={}, target=Target.parse("sm_90a"), key="ab" * 32, cache="demo", digest="cd" * 32,
        signature=Signature(arguments=(Argument(name="x", kind="tensor", dtype="float32", shape=("n",)),)),
        process=1, number=0, stream=False, arguments=(DumpedArgument(kind="tensor", layout=layout),),
        blocks=(Block(address=256, size=16, device=(1, 0)),),
    )  # fmt: skip
    value = json.loads(dump.encode())
    value["arguments"][0] |= changes
    return value


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"shape": [5]}, "ends after its block"),
        ({"strides": [2]}, "ends after its block"),
        ({"offset": 1}, "ends after its block"),
        ({"dtype": "float64"}, "ends after its block"),
        ({"shape": [2**62], "strides": [2**62]}, "ends after its block"),
        ({"block": 1}, "no block 1"),
        ({"block": -1}, "not between"),
        ({"shape": [-1]}, "not between"),
        ({"strides": [1, 1]}, "2 strides for 1 dimensions"),
        ({"dtype": "float99999999999x9"}, "."),
        ({"dtype": "complex64"}, "not a dtype"),
        ({"kind": "function"}, "is not one of"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        Dump.decode(json.dumps(one_tensor(**changes)).encode())


def test_a_negative_stride_begins_before_its_first_element() -> None:
    assert span((3, 2), (-2, 1), "int16") == (-8, 12)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    call = tmp_path / "9-1" / call_name(0)
    call.mkdir(parents=True)
    (call / HEADER).write_bytes(json.dumps(one_tensor()).encode())
    (call / block_name(0)).write_bytes(bytes(range(16)))
    return call


def test_a_folder_is_read(folder: Path) -> None:
    assert read_block(folder, read_dump(folder), 0) == bytes(range(16))


def test_a_file_of_another_size_is_refused(folder: Path) -> None:
    for size in (15, 17):
        (folder / block_name(0)).write_bytes(bytes(size))
        with pytest.raises(FormatError, match=f"has {size} bytes, but the header states 16"):
            read_dump(folder)


@pytest.mark.parametrize("kind", ["link", "fifo", "missing", "folder"])
@pytest.mark.parametrize("name", [HEADER, block_name(0)])
def test_only_plain_files_are_read(folder: Path, kind: str, name: str) -> None:
    (folder / name).rename(folder / "elsewhere")
    make: dict[str, Callable[[Path], object]] = {
        "link": lambda p: p.symlink_to("elsewhere"),
        "fifo": os.mkfifo,
        "folder": Path.mkdir,
        "missing": lambda p: None,
    }
    make[kind](folder / name)
    with pytest.raises(FormatError, match=r"cannot be read|not a regular file"):
        read_dump(folder)


def test_which_call_is_meant(folder: Path) -> None:
    process = folder.parent
    assert find_call(folder) == find_call(process) == find_call(process.parent) == folder
    assert next_call(folder) is None
    later = process / call_name(1)
    later.mkdir()
    (later / HEADER).write_bytes(b"{}")
    (process / f".{call_name(2)}").mkdir()  # a process was ended while it wrote this
    assert find_call(process) == later and next_call(folder) == later
    other = process.parent / "10-1" / call_name(5)
    other.mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"2 processes .10-1, 9-1.: name the folder of one"):
        find_call(process.parent)
    with pytest.raises(ConfigError, match="holds no dumped call"):
        find_call(later.parent.parent / "10-1" / call_name(5))
    with pytest.raises(ConfigError, match="cannot be read"):
        find_call(process / "nothing")


def test_a_dump_of_another_version_is_refused() -> None:
    with pytest.raises(FormatError, match="reads dumps of version 1 only"):
        Dump.decode(json.dumps({**one_tensor(), "version": 2}).encode())


def test_where_its_memory_is() -> None:
    dump = Dump.decode(json.dumps(one_tensor()).encode())
    assert dump.on_host and not replace(dump, blocks=(replace(dump.blocks[0], device=(2, 0)),)).on_host
