"""cp.async.bulk.tensor into shared memory: boxes, edges, steps, fills, swizzles, multicast, gather, im2col."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from precast.emulator import EmulationFault
from tests.helpers.emulator import kernel, run_ptx
from tests.helpers.emulator.registers import Array
from tests.helpers.emulator.tensor_maps import swizzled, tensor_map

_BEGIN = """
.shared .align 1024 .b8 box[32768]; .shared .align 8 .b64 done;
.reg .b32 to, barrier, at, value; .reg .b64 place; .reg .pred first, ready, more;
mov.u32 to, box; mov.u32 barrier, done; setp.eq.u32 first, %tid.x, 0;
@first mbarrier.init.shared.b64 [barrier], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
"""
_END = """
WAIT: mbarrier.try_wait.parity.shared.b64 ready, [barrier], 0; @!ready bra WAIT;
mov.u32 at, %tid.x; shl.b32 at, at, 2; mul.wide.u32 place, at, 1; add.u64 place, place, out; add.u32 to, to, at;
COPY: setp.lt.u32 more, at, BYTES; @!more bra END;
ld.shared.b32 value, [to]; st.global.b32 [place], value;
add.u32 to, to, 128; add.u64 place, place, 128; add.u32 at, at, 128; bra COPY; END:
"""


def load(instruction: str, maps: Array, tensor: Array, size: int, *, expected: int = 0, **options: Any) -> Array:
    """The bytes in shared memory after a copy; ``expected`` is what the mbarrier waits for."""
    arrive = f"@first mbarrier.arrive.expect_tx.shared.b64 _, [barrier], {expected or size};"
    text = kernel(
        f"{_BEGIN} {arrive} @first {instruction} {_END.replace('BYTES', str(size))}", "u64 map, u64 in, u64 out"
    )
    out = np.zeros(size, np.uint8)
    run_ptx(text, [maps, tensor, out], read_only=(0, 1), **options)
    return out


def copy(rank: int, at: Sequence[int], *, mode: str = "tile", tail: str = "") -> str:
    """The instruction."""
    where = ", ".join(map(str, at))
    return (
        f"cp.async.bulk.tensor.{rank}d.shared::cta.global.{mode}.mbarrier::complete_tx::bytes "
        f"[to], [map, {{{where}}}], [barrier]{tail};"
    )


def box_of(tensor: Array, box: Sequence[int], at: Sequence[int], steps: Sequence[int], fill: float = 0) -> Array:
    """The elements of a box, one after the other."""
    out = np.full(tuple(box[::-1]), fill, tensor.dtype)
    for place in itertools.product(*(range(size) for size in box)):
        where = [at[i] + place[i] * steps[i] for i in range(len(box))]
        if all(0 <= where[i] < tensor.shape[::-1][i] for i in range(len(box))):
            out[place[::-1]] = tensor[tuple(where[::-1])]
    return out


SHAPES = [
    ((256,), (64,), (8,), (1,)),
    ((20, 48), (16, 8), (32, 15), (1, 1)),
    ((20, 48), (16, 8), (-3, -2), (1, 1)),
    ((6, 9, 32), (16, 4, 3), (24, 7, 4), (1, 1, 1)),
    ((6, 9, 32), (8, 4, 2), (1, -2, 3), (2, 3, 1)),
    ((3, 5, 6, 16), (8, 2, 3, 2), (4, 5, -1, 1), (1, 1, 2, 1)),
    ((2, 3, 4, 5, 16), (16, 2, 2, 2, 2), (0, 4, 3, 2, 1), (1, 1, 1, 1, 1)),
]


@pytest.mark.parametrize(("shape", "box", "at", "steps"), SHAPES)
@pytest.mark.parametrize("kind", ["float16", "float32", "uint8"])
def test_boxes_of_one_to_five_dimensions(
    shape: tuple[int, ...], box: tuple[int, ...], at: tuple[int, ...], steps: tuple[int, ...], kind: str
) -> None:
    if kind == "uint8":
        box = (box[0] * 2, *box[1:])
    tensor = np.random.default_rng(1).integers(1, 100, shape).astype(kind)
    if tensor.strides[-2:][0] % 16 and tensor.ndim > 1:
        pytest.skip("the rows would not be aligned")
    expected = box_of(tensor, box, at, steps).tobytes()
    got = load(copy(len(box), at), tensor_map(tensor, box, steps=steps), tensor, len(expected))
    assert got.tobytes() == expected


@pytest.mark.parametrize("kind", ["float16", "float32", "float64", "int32"])
def test_what_is_outside_is_zero_or_nan(kind: str) -> None:
    tensor = np.ones((4, 16), kind)
    got = (
        load(copy(2, (8, -1)), tensor_map(tensor, (16, 4), nan=True), tensor, 64 * tensor.itemsize)
        .view(kind)
        .reshape(4, 16)
    )
    outside = np.ones((4, 16), bool)
    outside[1:, :8] = False
    assert (got[~outside] == 1).all()
    assert (np.isnan(got[outside]) if kind != "int32" else got[outside] == 0).all()


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_swizzles_exchange_units_of_16_bytes(swizzle: str) -> None:
    columns = int(swizzle[:-1]) // 2
    tensor = np.random.default_rng(2).integers(0, 1 << 16, (64, 128), np.uint16)
    expected = swizzled(tensor[8:40, 16 : 16 + columns], swizzle)
    got = load(copy(2, (16, 8)), tensor_map(tensor, (columns, 32), swizzle=swizzle), tensor, len(expected))
    np.testing.assert_array_equal(got, expected)


def test_elements_of_four_bits_are_packed() -> None:
    tensor = np.random.default_rng(3).integers(0, 256, (16, 64), np.uint8)
    maps = tensor_map(tensor, (64, 8), kind="float4", sizes=(128, 16))
    got = load(copy(2, (64, 4)), maps, tensor, 256)
    np.testing.assert_array_equal(got.reshape(8, 32), tensor[4:12, 32:])


def test_four_rows_are_gathered() -> None:
    tensor = np.random.default_rng(4).integers(0, 1 << 16, (32, 64), np.uint16)
    at = (16, 30, 3, 40, 7)
    got = (
        load(copy(2, at, mode="tile::gather4"), tensor_map(tensor, (32, 1)), tensor, 4 * 64)
        .view(np.uint16)
        .reshape(4, 32)
    )
    for row, expected in zip(got, at[1:], strict=True):
        np.testing.assert_array_equal(row, tensor[expected, 16:48] if expected < 32 else np.zeros(32))


def test_a_multicast_reaches_the_same_place_of_each_block() -> None:
    tensor = np.random.default_rng(5).integers(0, 1 << 16, (16, 32), np.uint16)
    instruction = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[to], [map, {0, 4}], [barrier], mask;"
    )
    body = f"""
.reg .b16 mask; .reg .pred sends; .reg .b32 rank; mov.u16 mask, 3; mov.u32 rank, %cluster_ctarank;
{_BEGIN} @first mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 512;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.eq.and.u32 sends, rank, 1, first; @sends {instruction}
mul.wide.u32 place, rank, 512; add.u64 out, out, place; {_END.replace("BYTES", "512")}
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
    out = np.zeros((2, 512), np.uint8)
    maps = tensor_map(tensor, (32, 8))
    for seed in range(3):
        run_ptx(
            kernel(body, "u64 map, u64 in, u64 out"), [maps, tensor, out], grid=2, cluster=2, seed=seed, delay=seed * 50
        )
        assert out[0].tobytes() == out[1].tobytes() == tensor[4:12].tobytes()


def test_a_pair_of_blocks_reports_to_the_mbarrier_of_one_of_them() -> None:
    """With cta_group::2, the bytes of both blocks complete at the block whose parity the mbarrier's address has."""
    tensor = np.random.default_rng(6).integers(0, 1 << 16, (16, 32), np.uint16)
    instruction = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        ".cta_group::2 [to], [map, {0, 4}], [leaders], mask;"
    )
    body = f"""
.reg .b16 mask; .reg .pred sends, leads; .reg .b32 rank, leaders; mov.u16 mask, 3; mov.u32 rank, %cluster_ctarank;
{_BEGIN} mapa.shared::cluster.u32 leaders, barrier, 0; setp.eq.and.u32 leads, rank, 0, first;
@leads mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 1024;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
setp.eq.and.u32 sends, rank, 1, first; @sends {instruction}
mul.wide.u32 place, rank, 512; add.u64 out, out, place; setp.ne.u32 leads, rank, 0; @leads bra COPIED;
WAIT: mbarrier.try_wait.parity.shared.b64 ready, [barrier], 0; @!ready bra WAIT; COPIED:
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
{_END[_END.index("mov.u32 at") :].replace("BYTES", "512")}
"""
    out = np.zeros((2, 512), np.uint8)
    run_ptx(kernel(body, "u64 map, u64 in, u64 out"), [tensor_map(tensor, (32, 8)), tensor, out], grid=2, cluster=2)
    assert out[0].tobytes() == out[1].tobytes() == tensor[4:12].tobytes()


@pytest.mark.parametrize("offsets", [(0, 0), (2, 1)])
def test_im2col_walks_through_the_pixels(offsets: tuple[int, int]) -> None:
    """Images of 5 x 6 pixels with a filter of 3 x 3 and a border of 1: the corners are -1 and -1."""
    images, height, width, channels, pixels = 2, 5, 6, 16, 40
    tensor = np.random.default_rng(6).integers(1, 1 << 16, (images, height, width, channels), np.uint16)
    maps = tensor_map(tensor, (channels,), corners=((-1, -1), (-1, -1)), pixels=pixels)
    at = (0, 3, 2, 0)
    tail = f", {{{offsets[0]}, {offsets[1]}}}"
    got = (
        load(copy(4, at, mode="im2col", tail=tail), maps, tensor, pixels * channels * 2)
        .view(np.uint16)
        .reshape(pixels, channels)
    )
    w, h, n = at[1:]
    for row in got:
        x, y = w + offsets[0], h + offsets[1]
        inside = 0 <= x < width and 0 <= y < height and n < images
        np.testing.assert_array_equal(row, tensor[n, y, x] if inside else np.zeros(channels))
        w += 1
        if w > width - 2:
            w, h = -1, h + 1
        if h > height - 2:
            h, n = -1, n + 1


def test_a_box_outside_of_its_memory_is_found() -> None:
    tensor = np.ones((16, 64), np.float16)
    maps = tensor_map(tensor, (64, 8), sizes=(64, 32))
    with pytest.raises(EmulationFault) as raised:
        load(copy(2, (0, 12)), maps, tensor, 1024)
    assert raised.value.kind == "out of bounds"


def test_more_bytes_than_expected_hang_or_fail() -> None:
    tensor = np.ones((16, 64), np.float16)
    with pytest.raises(EmulationFault):
        load(copy(2, (0, 0)), tensor_map(tensor, (64, 8)), tensor, 1024, expected=2048)


def test_other_coordinates_than_the_map_has_are_refused() -> None:
    tensor = np.ones((4, 16, 64), np.float16)
    with pytest.raises(EmulationFault) as raised:
        load(copy(2, (0, 0)), tensor_map(tensor, (64, 8, 1)), tensor, 1024)
    assert raised.value.kind == "descriptor"
