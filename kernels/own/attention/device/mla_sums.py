"""The sums of ``mla_decode``: what a group of four warps has of a result, in registers, and how it is added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import warpgroup

from precast.kernels.own.attention.latent import GROUP, HALF, HEADS, PITCH, VALUES, WARP, Latent, column, row
from precast.kernels.own.device.vectors import at

WEIGHED, FREE = 1, 2  # the barriers of both groups: weights are written, weights may be written; 0 is the block's


@dataclass(frozen=True)
class Share:
    """What a block has to do: a tile of heads of a sequence, and some steps over its latents.

    ``length`` is that of the sequence, ``splits`` the number of its shares, of which this one is ``split``.
    """

    sequence: Any
    tile: Any
    split: Any
    splits: Any
    length: Any
    first: Any
    steps: Any


@dataclass(frozen=True)
class Shared:
    """The shared memory of a block: operands in the order that wgmma reads, factors of rows, and barriers.

    ``rows`` is where the stages are, for the results that take their place. ``loaded`` is the barrier of the queries;
    the ``ring`` has those of the stages.
    """

    queries: Any
    stages: Any
    weights: Any
    rows: Any
    factors: Any
    loaded: Any
    ring: Any


class Sums:
    """``HEADS`` rows of one half of the columns. A thread has two neighbours of every eight columns, in two rows."""

    def __init__(self, latent: Latent, weigh: Any, part: int, thread: Any) -> None:
        self.latent, self.weigh, self.part, self.thread = latent, weigh, part, thread
        self.total = cute.make_rmem_tensor(weigh.partition_shape_C((HEADS, HALF)), cutlass.Float32)
        self.total.fill(0)
        self.own = cute.make_tensor(self.total.iterator, cute.make_layout((2, 2, HALF // 8)))

    @cute.jit
    def follow(self, share: Any, shared: Any) -> None:
        """Sum up the second half of the values, with the weights of the first group."""
        latent, scaling = self.latent, cute.make_rmem_tensor(2, cutlass.Float32)
        stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        for step in cutlass.range(share.first, share.first + share.steps, unroll=1):
            left = share.length - step * latent.keys
            if left < latent.keys:
                # What is cleared is also read as keys: the first group comes here when it has scored them.
                cute.arch.barrier(barrier_id=FREE, number_of_threads=2 * GROUP)
                shared.ring.wait_full(stage, parity)
                self.clear(shared.stages, left, stage)
            else:
                cute.arch.barrier_arrive(barrier_id=FREE, number_of_threads=2 * GROUP)
                shared.ring.wait_full(stage, parity)
            cute.arch.barrier(barrier_id=WEIGHED, number_of_threads=2 * GROUP)
            self.hear(scaling, shared)
            self.multiply(scaling)
            self.add(shared, stage)
            shared.ring.release(stage)
            stage, parity = shared.ring.after(stage, parity)
        cute.arch.barrier_arrive(barrier_id=FREE, number_of_threads=2 * GROUP)
        cute.arch.barrier(barrier_id=WEIGHED, number_of_threads=2 * GROUP)
        self.hear(scaling, shared)
        self.multiply(scaling)

    @cute.jit
    def clear(self, stages: cute.Tensor, left: cutlass.Int32, stage: cutlass.Int32) -> None:
        """Zero the values behind the end of a sequence: a weight of zero would not hide what stands there, say NaN.

        Both groups wait for it, so a thread writes 16 bytes at a time: swizzles leave those together.
        """
        vector = 128 // stages.element_type.width
        nothing = cute.make_rmem_tensor((1, vector), stages.element_type)
        nothing.fill(0)
        across = VALUES // vector
        pieces = cute.local_tile(stages, (1, vector), (None, None, stage))  # (1, vector, key, piece)
        for key in cutlass.range(left + self.thread // across, self.latent.keys, GROUP // across, unroll=1):
            cute.autovec_copy(nothing, pieces[None, None, key, self.thread % across])
        cute.arch.fence_view_async_shared()

    @cute.jit
    def hear(self, scaling: cute.Tensor, shared: Any) -> None:
        """Take the factors of a thread's rows."""
        for half in cutlass.range_constexpr(2):
            scaling[half] = shared.factors[row(self.thread, half)]

    @cute.jit
    def multiply(self, scaling: cute.Tensor) -> None:
        """Multiply each row by its factor; behind the first steps most warps have none but one."""
        own = self.own
        if cute.arch.vote_any_sync(scaling[0] != 1.0 or scaling[1] != 1.0):
            for half in cutlass.range_constexpr(2):
                for pair in cutlass.range_constexpr(HALF // 8):
                    for i in cutlass.range_constexpr(2):
                        own[i, half, pair] = own[i, half, pair] * scaling[half]

    @cute.jit
    def add(self, shared: Any, stage: cutlass.Int32) -> None:
        """Add the weighted values of a stage: the first elements of its latents, with the columns first."""
        stages, weigh = shared.stages, self.weigh
        turned = cute.make_tensor(stages.iterator, cute.select(stages.layout, mode=[1, 0, 2]))
        columns = cute.local_tile(turned, (HALF, cute.size(stages, mode=[0])), (self.part, 0, None))
        group = weigh.get_slice(0)
        first = weigh.make_fragment_A(group.partition_A(shared.weights))
        second = weigh.make_fragment_B(group.partition_B(columns))
        warpgroup.fence()
        for k in cutlass.range_constexpr(cute.size(first, mode=[2])):
            cute.gemm(weigh, self.total, first[None, None, k, 0], second[None, None, k, stage], self.total)
        warpgroup.commit_group()
        warpgroup.wait_group(0)

    @cute.jit
    def store(self, share: Any, shared: Any, out: cute.Tensor, out_parts: cute.Tensor) -> None:
        """Write to the result, or to the workspace: a split without latents has nothing to write there.

        Rows go through shared memory, where no stage is needed any more, so that a warp writes long pieces of each.
        """
        own, rows = self.own, shared.rows + self.part * (HEADS * PITCH)
        for half in cutlass.range_constexpr(2):
            for pair in cutlass.range_constexpr(HALF // 8):
                start = row(self.thread, half) * PITCH + column(self.thread, pair)
                two = cute.make_tensor(rows + cute.assume(start, divby=2), cute.make_layout(2))
                cute.autovec_copy(own[None, half, pair], two)
        cute.arch.sync_warp()  # a warp has rows of its own
        if share.splits > 1:
            if share.steps > 0:
                offset = cute.crd2idx((share.split, share.sequence, 0, 0), out_parts.layout)
                self.write(share, rows, out_parts, offset, out_parts.stride[2])
        else:
            self.write(share, rows, out, cutlass.Int64(share.sequence) * out.stride[0], out.stride[1])

    @cute.jit
    def write(self, share: Any, rows: cute.Pointer, to: cute.Tensor, offset: Any, apart: Any) -> None:
        """Write a warp's rows, 16 bytes a lane, each to its head: they are ``apart``, and the first is at ``place``."""
        vector = 128 // to.element_type.width
        result = cute.make_rmem_tensor(vector, to.element_type)
        for i in cutlass.range(WARP // 2, unroll=4):
            number = row(self.thread, 0) // 16 * 16 + i
            head = share.tile * HEADS + number
            if head < cute.size(to, mode=[cute.rank(to) - 2]):
                for piece in cutlass.range_constexpr(HALF // (WARP * vector)):
                    start = (piece * WARP + self.thread % WARP) * vector
                    source = rows + cute.assume(number * PITCH + start, divby=4)
                    numbers = cute.make_tensor(source, cute.make_layout(vector)).load()
                    result.store(numbers.to(to.element_type))
                    target = offset + cutlass.Int64(head) * apart + self.part * HALF + start
                    cute.autovec_copy(result, at(to, target, vector))
