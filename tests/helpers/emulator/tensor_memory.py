"""Kernels around one instruction of tcgen05: tensor memory is filled from an array and read back into one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.helpers.emulator import kernel, run_ptx
from tests.helpers.emulator.operands import Operand, copy_to_shared, descriptor
from tests.helpers.emulator.registers import Array, declare, names, vector

LANES, COLUMNS = 128, 512
_IMAGE = 64 * 1024
_WIDTH = 32  # columns that one instruction moves


def _rows(what: str) -> str:
    """All columns of a warp's 32 lanes, from ``in_tmem`` or to ``out_tmem``."""
    held = names("w", _WIDTH)
    pointer = "in_tmem" if what == "st" else "out_tmem"
    lines = [f"{{ {declare(held)} .reg .b64 row; .reg .b32 thread, column;"]
    lines.append("mov.u32 thread, %ctaid.x; shl.b32 thread, thread, 7; mov.u32 column, %tid.x;")
    lines.append(
        f"add.u32 thread, thread, column; mul.wide.u32 row, thread, {COLUMNS * 4}; add.u64 row, row, {pointer};"
    )
    for first in range(0, COLUMNS, _WIDTH):
        lines.append(f"add.u32 column, lanes, {first};")
        if what == "st":
            lines += [f"ld.global.b32 {name}, [row+{4 * (first + i)}];" for i, name in enumerate(held)]
            lines.append(f"tcgen05.st.sync.aligned.32x32b.x{_WIDTH}.b32 [column], {vector(held)};")
        else:
            lines.append(f"tcgen05.ld.sync.aligned.32x32b.x{_WIDTH}.b32 {vector(held)}, [column];")
            lines += [f"st.global.b32 [row+{4 * (first + i)}], {name};" for i, name in enumerate(held)]
    lines.append("tcgen05.wait::st.sync.aligned; }" if what == "st" else "}")
    return "\n".join(lines)


def fill_memory() -> str:
    """Fill tensor memory from ``in_tmem``."""
    return _rows("st")


def read_memory() -> str:
    """Write tensor memory to ``out_tmem``."""
    return _rows("ld")


BEGIN = """
.shared .align 1024 .b8 left[65536]; .shared .align 1024 .b8 right[65536];
.shared .align 8 .b64 done; .shared .b32 base_at;
.reg .b32 base, lanes, warp, barrier, rank, peer; .reg .b64 da, db, image; .reg .pred first, mine, ready;
mov.u32 warp, %tid.x; shr.u32 warp, warp, 5; setp.eq.u32 first, warp, 0; setp.eq.u32 mine, %tid.x, 0;
mov.u32 barrier, done; mov.u32 rank, %cluster_ctarank; mov.u32 peer, base_at;
@mine mbarrier.init.shared.b64 [barrier], 1;
@first tcgen05.alloc.cta_group::GROUP.sync.aligned.shared::cta.b32 [peer], 512;
@first tcgen05.relinquish_alloc_permit.cta_group::GROUP.sync.aligned;
bar.sync 0; ld.shared.b32 base, [peer];
shl.b32 lanes, warp, 21; add.u32 lanes, lanes, base;
"""
BEFORE = """
fence.proxy.async.shared::cta; fence.mbarrier_init.release.cluster;
tcgen05.fence::before_thread_sync; bar.sync 0;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
tcgen05.fence::after_thread_sync;
"""
AFTER = """
WAIT: mbarrier.try_wait.parity.shared.b64 ready, [barrier], 0; @!ready bra WAIT;
tcgen05.fence::after_thread_sync;
"""
END = """
tcgen05.fence::before_thread_sync; bar.sync 0;
barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
@first tcgen05.dealloc.cta_group::GROUP.sync.aligned.b32 base, 512;
"""


def run_tensor(
    instructions: str,
    memory: Array,
    a: Sequence[Operand] = (),
    b: Sequence[Operand] = (),
    *,
    group: int = 1,
    **options: Any,
) -> Array:
    """Tensor memory of the blocks (group x 128 x 512) after some instructions.

    One thread of the first block executes them; ``base`` is the address of tensor memory, ``da`` and ``db`` are
    descriptors of the operands (one for each block, with equal fields).
    """
    images = [
        np.stack([one.image for one in operands]) if operands else np.zeros((group, 4), np.uint8) for operands in (a, b)
    ]
    body = [BEGIN]
    for name, register, operands in (("left", "da", a), ("right", "db", b)):
        if not operands:
            continue
        body.append(f"mul.wide.u32 image, rank, {_IMAGE}; add.u64 image, image, in_{name};")
        body.append(copy_to_shared(name, "image", _IMAGE, LANES))
        body.append(descriptor(register, name, f"{operands[0].tcgen05():#x}", operands[0].start))
    body += [fill_memory(), BEFORE, "setp.eq.and.u32 mine, rank, 0, mine;", "@!mine bra DONE;", instructions]
    multicast = ".multicast::cluster" if group == 2 else ""
    mask = ", both" if group == 2 else ""
    body.append(".reg .b16 both; mov.u16 both, 3;")
    body.append(
        f"tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster{multicast}.b64 [barrier]{mask};"
    )
    body += ["DONE:", AFTER, read_memory(), END]
    text = kernel("\n".join(body).replace("GROUP", str(group)), "u64 in_left, u64 in_right, u64 in_tmem, u64 out_tmem")
    out = np.zeros_like(memory)
    arguments = [*images, memory, out]
    run_ptx(text, arguments, block=LANES, grid=group, cluster=group, read_only=(0, 1, 2), **options)
    return out


def random_memory(group: int = 1, seed: int = 0) -> Array:
    """Tensor memory with whatever bits."""
    return np.random.default_rng(seed).integers(0, 1 << 32, (group, LANES, COLUMNS), np.uint32)
