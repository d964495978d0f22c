"""The memory of a call: which blocks, how many bytes, from where, and what is left out."""

from __future__ import annotations

import ctypes
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.diagnostics.dump import Block, DumpedArgument
from precast.loader.contract.format.signature import Argument
from precast.loader.watch.memory import GpuFailed, bytes_of, describe_arguments, merged_blocks
from precast.loader.watch.plain_value import View


def no_driver() -> Any:
    raise AssertionError("the driver is not asked for memory of the host")


def seen(*values: Any, kinds: tuple[str, ...] = ()) -> Any:
    signature = [Argument(name=f"a{n}", kind=kind) for n, kind in enumerate(kinds or ("const",) * len(values))]
    return describe_arguments(signature, values)


def test_numbers_and_the_rest() -> None:
    found = seen(None, True, 3, 0.5, "text", (1, (None, 2.0)), np.int64(4), object(), 2**70)
    assert [(one.kind, one.value) for one in found.arguments] == [
        ("none", None), ("bool", True), ("int", 3), ("float", 0.5), ("text", "text"), ("tuple", None), ("int", 4),
        ("other", "object"), ("other", "int"),
    ]  # fmt: skip
    assert found.arguments[5].items[1].items == (DumpedArgument(kind="none"), DumpedArgument(kind="float", value=2.0))
    assert found.blocks == ()


def test_addresses_are_not_kept() -> None:
    found = seen(4096, 8192, kinds=("pointer", "stream"))
    assert found.arguments == (DumpedArgument(kind="pointer", value="int"), DumpedArgument(kind="stream", value="int"))


def test_a_tensor_with_a_gradient_and_one_of_numpy() -> None:
    x, y = torch.nn.Parameter(torch.ones(3)), np.ones((2, 2), np.float16)
    found = seen(x, y)
    layouts = [one.layout for one in found.arguments]
    assert [(one.shape, one.strides, one.dtype) for one in layouts if one] == [
        ((3,), (1,), "float32"),
        ((2, 2), (2, 1), "float16"),
    ]


def test_tensors_that_overlap_share_a_block() -> None:
    whole = torch.arange(32, dtype=torch.int32)
    other = torch.zeros(4)
    found = seen(whole[4:12], other, whole[8:24:2], whole[:0])
    x, y, z, nothing = (one.layout for one in found.arguments)
    assert x.block == z.block != y.block and (x.offset, z.offset, nothing.size) == (0, 16, 0)
    _, data = bytes_of(found.blocks, 1000, no_driver)
    assert data[x.block] == whole[4:23].numpy().tobytes() and data[y.block] == bytes(16)


VIEWS = st.builds(
    lambda data, shape, stride: View(data=data, shape=(shape,), strides=(stride,), dtype="int8", device=(1, 0)),
    st.integers(100, 160),
    st.integers(0, 9),
    st.integers(0, 4),
)


@given(st.lists(VIEWS, max_size=6))
def test_blocks_cover_all_and_do_not_overlap(views: list[View]) -> None:
    blocks, where = merged_blocks(views)
    for view, number in zip(views, where, strict=True):
        size = (view.shape[0] - 1) * view.strides[0] + 1 if view.shape[0] else 0
        block = blocks[number]
        assert block.address <= view.data and view.data + size <= block.address + block.size
    used = [one for one in blocks if one.size]
    for one, following in itertools.pairwise(used):
        assert one.address + one.size <= following.address


def test_the_limit_leaves_out_what_is_beyond_it() -> None:
    tensors = [torch.full((n,), n, dtype=torch.uint8) for n in (10, 50, 5)]
    found = seen(*tensors)
    kept, data = bytes_of(found.blocks, 16, no_driver)
    for tensor, one in zip(tensors, found.arguments, strict=True):
        number = one.layout.block
        left_out = kept[number].left_out
        if len(tensor) == 50:
            assert data[number] is None and left_out.startswith("50 bytes, and PRECAST_DUMP_LIMIT leaves ")
        else:
            assert data[number] == tensor.numpy().tobytes() and left_out == ""


class Gpu:
    """Stands in for the driver of a GPU: its memory is the host's, and it answers as it is told."""

    def __init__(self, *, capturing: int = 0, waited: int = 0, asked: int = 0) -> None:
        self.calls: list[str] = []
        self.library = SimpleNamespace(
            cuDevicePrimaryCtxRetain=self.answer("retain"),
            cuCtxPushCurrent_v2=self.answer("push"),
            cuCtxPopCurrent_v2=self.answer("pop"),
            cuStreamIsCapturing=self.capturing(capturing, asked),
            cuCtxSynchronize=self.answer("wait", waited),
            cuMemcpyDtoH_v2=self.copy,
        )

    def handle(self, ordinal: int) -> int:
        return ordinal

    def answer(self, name: str, code: int = 0) -> Any:
        def function(*_: object) -> int:
            self.calls.append(name)
            return code

        return function

    def capturing(self, status: int, code: int) -> Any:
        def function(stream: object, out: Any) -> int:
            out._obj.value = status
            return code

        return function

    def copy(self, to: Any, address: Any, size: Any) -> int:
        self.calls.append("copy")
        if size.value == 13:
            return 1
        ctypes.memmove(to, address.value, size.value)
        return 0


@pytest.fixture(autouse=True)
def _stream(monkeypatch: pytest.MonkeyPatch) -> None:
    from precast.loader.watch import memory

    monkeypatch.setattr(memory, "current_stream", lambda ordinal: 0x50)


def on_device(data: bytearray) -> Block:
    address = ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))
    return Block(address=address, size=len(data), device=(2, 1))


def test_device_memory_is_copied_after_all_work_is_done() -> None:
    gpu, data = Gpu(), bytearray(b"12345678")
    kept, found = bytes_of([on_device(data)], 100, lambda: gpu)  # type: ignore[arg-type,return-value]
    assert found == (b"12345678",) and kept[0].left_out == ""
    assert gpu.calls == ["retain", "push", "wait", "copy", "pop"]


def test_an_address_without_memory_leaves_the_rest() -> None:
    """Such a tensor may be why the call crashes: the dump is what shows it."""
    gpu, data = Gpu(), bytearray(b"1234")
    kept, found = bytes_of([on_device(bytearray(13)), on_device(data)], 100, lambda: gpu)  # type: ignore[arg-type,return-value]
    assert found == (None, b"1234") and kept[0].left_out == "the driver cannot read it"


def test_a_torch_without_cuda_is_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    from precast.loader.watch import memory

    def refuse(ordinal: int) -> int:
        raise AssertionError("Torch not compiled with CUDA enabled")

    monkeypatch.setattr(memory, "current_stream", refuse)
    gpu, data = Gpu(), bytearray(b"1234")
    assert bytes_of([on_device(data)], 100, lambda: gpu)[1] == (b"1234",)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("how", [{"capturing": 1}, {"asked": 906}])
def test_while_a_graph_is_captured_nothing_is_waited_for(how: dict[str, int]) -> None:
    gpu = Gpu(**how)
    kept, found = bytes_of([on_device(bytearray(8))], 100, lambda: gpu)  # type: ignore[arg-type,return-value]
    assert found == (None,) and kept[0].left_out == "the stream was capturing a graph"
    assert gpu.calls == ["retain", "push", "pop"]


@pytest.mark.parametrize(
    ("how", "name"), [({"waited": 700}, "cuCtxSynchronize"), ({"asked": 700}, "cuStreamIsCapturing")]
)
def test_an_error_of_earlier_work_is_no_dump(how: dict[str, int], name: str) -> None:
    """Whichever function reports it: else the dump of a later call would be the last one after a crash."""
    gpu = Gpu(**how)
    with pytest.raises(GpuFailed, match=f"{name} returned error 700"):
        bytes_of([on_device(bytearray(8))], 100, lambda: gpu)  # type: ignore[arg-type,return-value]
    assert gpu.calls[-1] == "pop"


def test_a_context_that_cannot_be_entered_is_no_dump() -> None:
    gpu = Gpu()
    gpu.library.cuDevicePrimaryCtxRetain = lambda *_: 700
    with pytest.raises(GpuFailed, match="cuDevicePrimaryCtxRetain returned error 700"):
        bytes_of([on_device(bytearray(8))], 100, lambda: gpu)  # type: ignore[arg-type,return-value]


def test_memory_of_another_device_is_left_out() -> None:
    kept, found = bytes_of([Block(address=64, size=8, device=(10, 0))], 100, no_driver)
    assert found == (None,) and kept[0].left_out == "memory of a device of type 10"
