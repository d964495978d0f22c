"""Copies out of shared memory, bulk copies, reductions, cp.async, and changes of tensor maps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from precast.emulator import EmulationFault
from tests.helpers.emulator import kernel, run_ptx
from tests.helpers.emulator.operands import copy_to_shared
from tests.helpers.emulator.registers import Array
from tests.helpers.emulator.tensor_maps import swizzled, tensor_map

_FENCE = "fence.proxy.async.shared::cta; bar.sync 0;"
_FIRST = ".reg .pred first; setp.eq.u32 first, %tid.x, 0;"
_DONE = "@first cp.async.bulk.commit_group; @first cp.async.bulk.wait_group 0;"


def store(instruction: str, source: Array, target: Array, maps: Array | None = None, **options: Any) -> None:
    """Bytes to shared memory, then an instruction by one thread that brings them to ``target``."""
    body = f".shared .align 1024 .b8 box[{source.nbytes}]; .reg .b32 at; mov.u32 at, box; {_FIRST}"
    body += copy_to_shared("box", "source", source.nbytes, 32)
    body += f"mov.u32 at, box; {_FENCE} @first {instruction} {_DONE}"
    empty = np.zeros(128, np.uint8)
    run_ptx(
        kernel(body, "u64 source, u64 target, u64 map"),
        [source, target, empty if maps is None else maps],
        read_only=(0, 2),
        **options,
    )


@pytest.mark.parametrize("swizzle", ["none", "128B"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_box_is_stored_without_what_is_outside(swizzle: str, seed: int) -> None:
    target = np.zeros((20, 96), np.uint16)
    box = np.random.default_rng(1).integers(1, 1 << 16, (16, 64), np.uint16)
    source = swizzled(box, swizzle)
    instruction = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {64, 10}], [at];"
    store(instruction, source, target, tensor_map(target, (64, 16), swizzle=swizzle), seed=seed, delay=30)
    expected = np.zeros_like(target)
    expected[10:, 64:] = box[:10, :32]
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize("row_bytes", [256, 1 << 18], ids=["after address 0", "before address 0"])
def test_rows_of_one_sequence_are_stored_by_a_base_before_the_memory(row_bytes: int) -> None:
    """As FlashAttention-4 stores packed sequences: 2**30 rows before the memory begins a tensor of so many rows, whose
    end cuts off what is behind the sequence."""
    rows, begin, length = 1 << 30, 2, 5
    target = np.zeros((10, row_bytes // 2), np.uint16)
    source = np.random.default_rng(4).integers(1, 1 << 16, (8, 64), np.uint16)
    sizes, strides = (64, rows, (1 << 31) - 1), (row_bytes, row_bytes)
    maps = tensor_map(target, (64, 8, 1), sizes=sizes, strides=strides, shift=-rows * row_bytes)
    at = f"{{0, {rows - length}, {begin + length}}}"
    store(f"cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [map, {at}], [at];", source, target, maps)
    expected = np.zeros_like(target)
    expected[begin : begin + length, :64] = source[:length]
    np.testing.assert_array_equal(target, expected)


def test_four_rows_are_scattered() -> None:
    target = np.zeros((16, 32), np.uint16)
    source = np.random.default_rng(2).integers(1, 1 << 16, (4, 32), np.uint16)
    instruction = "cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [map, {0, 9, 2, 20, 5}], [at];"
    store(instruction, source, target, tensor_map(target, (32, 1)))
    expected = np.zeros_like(target)
    expected[[9, 2, 5]] = source[[0, 1, 3]]
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(
    ("operation", "kind", "expected"),
    [
        ("add", "float32", np.add),
        ("add", "float16", np.add),
        ("min", "int32", np.minimum),
        ("max", "float16", np.maximum),
        ("or", "uint32", np.bitwise_or),
        ("xor", "uint32", np.bitwise_xor),
        ("and", "uint32", np.bitwise_and),
        ("add", "float64", np.add),
    ],
)
def test_reductions_of_boxes(operation: str, kind: str, expected: np.ufunc) -> None:
    generator = np.random.default_rng(3)
    low = 0 if kind == "uint32" else -50
    target, source = (generator.integers(low, 50, (8, 32)).astype(kind) for _ in range(2))
    wanted = expected(target, source)
    instruction = (
        f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group [map, {{0, 0}}], [at];"
    )
    store(instruction, source, target, tensor_map(target, (32, 8)))
    np.testing.assert_array_equal(target, wanted)


@pytest.mark.parametrize(
    ("suffix", "kind"),
    [("add.f32", "float32"), ("add.noftz.f16", "float16"), ("max.s32", "int32"), ("inc.u32", "uint32")],
)
def test_reductions_of_runs(suffix: str, kind: str) -> None:
    generator = np.random.default_rng(4)
    target, source = (generator.integers(0, 50, 64).astype(kind) for _ in range(2))
    wanted = {
        "add": target + source,
        "max": np.maximum(target, source),
        "inc": np.where(target >= source, 0, target + 1),
    }[suffix.split(".")[0]]
    store(
        f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{suffix} [target], [at], {source.nbytes};", source, target
    )
    np.testing.assert_array_equal(target, wanted)


def test_a_run_is_stored_under_a_mask_of_bytes() -> None:
    source = np.arange(1, 129, dtype=np.uint8)
    target = np.zeros(128, np.uint8)
    store("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [target], [at], 128, 0x0f0f;", source, target)
    np.testing.assert_array_equal(target, np.where(np.arange(128) % 8 < 4, source, 0))


def test_a_run_from_another_block() -> None:
    """Each block sends its bytes to the other."""
    body = f"""
.shared .align 128 .b8 mine[256]; .shared .align 128 .b8 theirs[256]; .shared .align 8 .b64 done;
.reg .b32 at, to, barrier, remote, rank, other, word; .reg .b64 place; .reg .pred ready; {_FIRST}
mov.u32 rank, %cluster_ctarank; xor.b32 other, rank, 1; mov.u32 barrier, done; mov.u32 to, theirs;
@first mbarrier.init.shared.b64 [barrier], 1; @first mbarrier.arrive.expect_tx.shared.b64 _, [barrier], 256;
fence.mbarrier_init.release.cluster; mul.wide.u32 place, rank, 256; add.u64 source, source, place;
{copy_to_shared("mine", "source", 256, 32)} {_FENCE}
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
mov.u32 at, mine; mapa.shared::cluster.u32 to, to, other; mapa.shared::cluster.u32 remote, barrier, other;
@first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [to], [at], 256, [remote];
WAIT: mbarrier.try_wait.parity.shared.b64 ready, [barrier], 0; @!ready bra WAIT;
mov.u32 at, %tid.x; shl.b32 at, at, 3; mov.u32 to, theirs; add.u32 to, to, at;
mul.wide.u32 place, at, 1; add.u64 out, out, place; mul.wide.u32 place, rank, 256; add.u64 out, out, place;
.reg .b64 both; ld.shared.b64 both, [to]; st.global.b64 [out], both;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""
    source = np.random.default_rng(5).integers(0, 256, (2, 256), np.uint8)
    for seed in range(3):
        out = np.zeros_like(source)
        run_ptx(kernel(body, "u64 source, u64 out"), [source, out], grid=2, cluster=2, seed=seed, delay=40)
        np.testing.assert_array_equal(out, source[::-1])


def small_copies(wait: str) -> str:
    """Each lane copies 16 bytes, of which it reads 4 * (lane % 5); then it stores what it finds."""
    return f"""
.shared .align 16 .b8 to[512]; .reg .b32 at, lane, bytes; .reg .b32 w0, w1, w2, w3; .reg .b64 place;
mov.u32 lane, %tid.x; shl.b32 bytes, lane, 4; mov.u32 at, to; add.u32 at, at, bytes;
mul.wide.u32 place, bytes, 1; add.u64 source, source, place; add.u64 out, out, place;
rem.u32 bytes, lane, 5; shl.b32 bytes, bytes, 2;
cp.async.cg.shared.global.L2::128B [at], [source], 16, bytes;
cp.async.commit_group;
{wait}
ld.shared.v4.b32 {{w0, w1, w2, w3}}, [at]; st.global.v4.b32 [out], {{w0, w1, w2, w3}};
"""


@pytest.mark.parametrize("wait", ["cp.async.wait_group 0;", "cp.async.wait_all;"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_small_copies_fill_with_zeros(wait: str, seed: int) -> None:
    source = np.random.default_rng(6).integers(1, 1 << 32, (32, 4), np.uint32)
    out = np.zeros_like(source)
    run_ptx(kernel(small_copies(wait), "u64 source, u64 out"), [source, out], read_only=(0,), seed=seed, delay=100)
    read = np.arange(32)[:, None] % 5
    np.testing.assert_array_equal(out, np.where(np.arange(4)[None] < read, source, 0))


def test_a_copy_that_is_not_waited_for_is_found() -> None:
    source, out = np.ones((32, 4), np.uint32), np.zeros((32, 4), np.uint32)
    with pytest.raises(EmulationFault) as raised:
        run_ptx(
            kernel(small_copies("cp.async.wait_group 1;"), "u64 source, u64 out"), [source, out], seed=3, delay=5000
        )
    assert raised.value.kind == "copy"


def test_small_copies_arrive_at_an_mbarrier() -> None:
    wait = "@%p1 bra WAIT; WAIT: mbarrier.try_wait.parity.shared.b64 ready, [barrier], 0; @!ready bra WAIT;"
    body = (
        ".shared .align 8 .b64 done; .reg .b32 barrier; .reg .pred ready; mov.u32 barrier, done; setp.ne.u32 %p1, 0, 0;"
    )
    body += ".reg .pred first; setp.eq.u32 first, %tid.x, 0; @first mbarrier.init.shared.b64 [barrier], 32; bar.sync 0;"
    body += small_copies(f"cp.async.mbarrier.arrive.noinc.shared.b64 [barrier]; {wait}")
    source = np.random.default_rng(7).integers(1, 1 << 32, (32, 4), np.uint32)
    for seed in range(3):
        out = np.zeros_like(source)
        run_ptx(kernel(body, "u64 source, u64 out"), [source, out], read_only=(0,), seed=seed, delay=200)
        assert out[4].tolist() == source[4].tolist()


def test_a_tensor_map_is_changed_on_the_device() -> None:
    """A map of another tensor is made the map of this one, and a box is stored by it."""
    target, other = np.zeros((8, 64), np.uint16), np.zeros((4, 32), np.uint16)
    maps = tensor_map(other, (32, 4))
    source = np.random.default_rng(8).integers(1, 1 << 16, (8, 64), np.uint16)
    body = f"""
.shared .align 128 .b8 box[1024]; .reg .b32 at; mov.u32 at, box; {_FIRST} @!first bra READY;
tensormap.replace.tile.global_address.global.b1024.b64 [map], target;
tensormap.replace.tile.global_dim.global.b1024.b32 [map], 0, 64;
tensormap.replace.tile.global_dim.global.b1024.b32 [map], 1, 8;
tensormap.replace.tile.global_stride.global.b1024.b64 [map], 0, 128;
tensormap.replace.tile.box_dim.global.b1024.b32 [map], 0, 64;
tensormap.replace.tile.box_dim.global.b1024.b32 [map], 1, 8;
fence.proxy.tensormap::generic.release.gpu; fence.proxy.tensormap::generic.acquire.gpu [map], 128;
READY: {copy_to_shared("box", "source", 1024, 32)} mov.u32 at, box; {_FENCE}
@first cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [map, {{0, 0}}], [at]; {_DONE}
"""
    run_ptx(kernel(body, "u64 source, u64 target, u64 map"), [source, target, maps], read_only=(0,))
    np.testing.assert_array_equal(target, source)
