"""Prefix sums: over the lanes of a warp, and over the threads of a block."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute

from precast.kernels.own.rows import WARP


@cute.jit
def warp_through(value: cutlass.Int32) -> cutlass.Int32:
    """The sum of the values of this lane and of those before it. All lanes take part."""
    lane = cute.arch.lane_idx()
    for step in cutlass.range_constexpr(5):
        # By default, DSL 4.6 bounds the lane from above, as other shuffles do: each lane then gets its own value.
        below = cute.arch.shuffle_sync_up(value, 1 << step, mask_and_clamp=0)
        if lane >= 1 << step:
            value += below
    return value


@cute.jit
def block_through(value: cutlass.Int32, sums: cute.Tensor) -> cutlass.Int32:
    """The sum of the values of this thread and of those before it, in a block of 1024. All threads take part.

    ``sums`` is shared memory, one integer for each warp, that nothing else uses.
    """
    thread, _, _ = cute.arch.thread_idx()
    lane, warp = thread % WARP, thread // WARP
    value = warp_through(value)
    if lane == WARP - 1:
        sums[warp] = value
    cute.arch.sync_threads()
    if warp == 0:
        sums[lane] = warp_through(sums[lane])
    cute.arch.sync_threads()
    if warp > 0:
        value += sums[warp - 1]
    return value
