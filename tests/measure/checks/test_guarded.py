"""Guarded tensors: the same values, strides and sharing as the originals, and every stray byte is found."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precast.measure.checks.guarded import Guarded, enclose


def one(tensor: torch.Tensor, **options: object) -> Guarded:
    (room,) = enclose({"x": tensor}, pattern=0xFF, **options)  # type: ignore[arg-type]
    return room


@st.composite
def strided(draw: st.DrawFn) -> torch.Tensor:
    """A tensor of up to three dimensions, with gaps, in any order of dimensions, or with a dimension that repeats."""
    dtype = draw(st.sampled_from([torch.float32, torch.bfloat16, torch.int8, torch.int64]))
    sizes = draw(st.lists(st.integers(0, 4), max_size=3))
    padded = [size + draw(st.integers(0, 2)) for size in sizes]
    base = torch.arange(1, 1 + torch.Size(padded).numel() + 3).to(dtype)[draw(st.integers(0, 3)) :]
    whole = base[: torch.Size(padded).numel()].view(padded)
    tensor = whole[tuple(slice(0, size) for size in sizes)].permute(draw(st.permutations(range(len(sizes)))))
    return tensor.unsqueeze(0).expand(3, *tensor.shape) if draw(st.booleans()) else tensor


@given(strided(), st.data())
def test_a_tensor_is_as_it_was_and_a_stray_byte_is_found(tensor: torch.Tensor, data: st.DataObject) -> None:
    room = one(tensor)
    view = room.views["x"]
    assert torch.equal(view, tensor) and view.stride() == tensor.stride()
    assert view.numel() == 0 or view.data_ptr() % 512 == tensor.data_ptr() % 512
    assert room.stray() == ""
    mine = set()
    places = torch.arange(len(room.buffer)).view(-1)
    if view.numel():
        size, start = view.element_size(), view.data_ptr() - room.buffer.data_ptr()
        offsets = torch.zeros(view.shape, dtype=torch.int64)
        for dim, stride in enumerate(view.stride()):
            shape = [1] * view.dim()
            shape[dim] = view.shape[dim]
            offsets += (torch.arange(view.shape[dim]) * stride * size).view(shape)
        mine = {int(start + offset) + i for offset in offsets.flatten().tolist() for i in range(size)}
    place = (room.first + data.draw(st.integers(-40, 300))) % len(places)
    room.buffer[place] = 0
    assert (room.stray() == "") == (place in mine)


def test_tensors_that_share_memory_share_it_again() -> None:
    x = torch.arange(12.0).view(3, 4)
    rooms = enclose({"x": x, "row": x[1], "other": torch.zeros(2)}, pattern=0xFF)
    views = {name: view for room in rooms for name, view in room.views.items()}
    assert len(rooms) == 2
    views["x"][1] = 7.0
    assert views["row"].tolist() == [7.0] * 4 and x[1].tolist() == [4.0, 5.0, 6.0, 7.0]


@pytest.mark.parametrize("alignment", [4, 16, 128, 1024])
def test_a_tensor_can_be_aligned_no_better_than_asked(alignment: int) -> None:
    view = one(torch.zeros(8), alignment={"x": alignment}).views["x"]
    assert view.data_ptr() % (2 * alignment) == alignment


def test_an_empty_one_holds_nan_and_everything_around_it_too() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        room = one(torch.zeros(3, dtype=dtype), empty=["x"])
        assert room.views["x"].float().isnan().all()
        assert room.buffer[: room.first][-8:].view(dtype).float().isnan().all()
