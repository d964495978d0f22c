"""The sums of ``mla_decode``: a group of four warps has a half of the result's columns in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import warpgroup

from precast.kernels.own.attention.latent import GROUP, HALF, HEADS, PITCH, VALUES, WARP, Latent, column, row
from precast.kernels.own.device.vectors import at

WEIGHED, FREE = 1, 2  # named barriers of both groups: weights were written, may be overwritten; 0 is the block's


@dataclass(frozen=True)
class Work:
    """The work of a block: a tile of heads of a sequence, and some steps over its latents.

    ``length`` is that of the sequence, ``splits`` how many blocks its latents are divided among; this one is ``split``.
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
    """The shared memory of a block: operands in the layouts that wgmma reads, factors of rows, and barriers.

    ``rows`` is the memory of the stages, which the results reuse. ``loaded`` is the barrier of the queries; the
    ``ring`` has those of the stages."""

    queries: Any
    stages: Any
    weights: Any
    rows: Any
    factors: Any
    loaded: Any
    ring: Any


class Sums:
    """``HEADS`` rows of one half of the columns. A thread has 2 of every 8 columns, in two rows, as wgmma lays out."""

    def __init__(self, latent: Latent, weigh: Any, part: int, thread: Any) -> None:
        self.latent, self.weigh, self.part, self.thread = latent, weigh, part, thread
        self.total = cute.make_rmem_tensor(weigh.partition_shape_C((HEADS, HALF)), cutlass.Float32)
        self.total.fill(0)
        self.fragment = cute.make_tensor(self.total.iterator, cute.make_layout((2, 2, HALF // 8)))

    @cute.jit
    def sum_values(self, work: Any, shared: Any) -> None:
        """Sum up the second half of the values, with the weights of the first group."""
        latent, scaling = self.latent, cute.make_rmem_tensor(2, cutlass.Float32)
        stage, parity = cutlass.Int32(0), cutlass.Int32(0)
        for step in cutlass.range(work.first, work.first + work.steps, unroll=1):
            left = work.length - step * latent.keys
            if left < latent.keys:
                # The latents are cleared below, and are also the keys: first wait until the first group has scored
                # them.
                cute.arch.barrier(barrier_id=FREE, number_of_threads=2 * GROUP)
                shared.ring.wait_full(stage, parity)
                self.clear(shared.stages, left, stage)
            else:
                cute.arch.barrier_arrive(barrier_id=FREE, number_of_threads=2 * GROUP)
                shared.ring.wait_full(stage, parity)
            cute.arch.barrier(barrier_id=WEIGHED, number_of_threads=2 * GROUP)
            self.read_factors(scaling, shared)
            self.multiply(scaling)
            self.add(shared, stage)
            shared.ring.release(stage)
            stage, parity = shared.ring.after(stage, parity)
        cute.arch.barrier_arrive(barrier_id=FREE, number_of_threads=2 * GROUP)
        cute.arch.barrier(barrier_id=WEIGHED, number_of_threads=2 * GROUP)
        self.read_factors(scaling, shared)
        self.multiply(scaling)

    @cute.jit
    def clear(self, stages: cute.Tensor, left: cutlass.Int32, stage: cutlass.Int32) -> None:
        """Zero the values past the end of a sequence: their weights are zero, but zero times NaN would be NaN.

        Both groups wait for this, so a thread writes 16 bytes at a time, which swizzles keep contiguous. The fence
        makes the writes visible to wgmma, which reads shared memory through the async proxy."""
        vector = 128 // stages.element_type.width
        nothing = cute.make_rmem_tensor((1, vector), stages.element_type)
        nothing.fill(0)
        across = VALUES // vector
        pieces = cute.local_tile(stages, (1, vector), (None, None, stage))  # (1, vector, key, piece)
        for key in cutlass.range(left + self.thread // across, self.latent.keys, GROUP // across, unroll=1):
            cute.autovec_copy(nothing, pieces[None, None, key, self.thread % across])
        cute.arch.fence_view_async_shared()

    @cute.jit
    def read_factors(self, scaling: cute.Tensor, shared: Any) -> None:
        """Read the factors of a thread's rows."""
        for half in cutlass.range_constexpr(2):
            scaling[half] = shared.factors[row(self.thread, half)]

    @cute.jit
    def multiply(self, scaling: cute.Tensor) -> None:
        """Multiply each row by its factor. After the first steps, most warps have only factors of one, and skip it."""
        fragment = self.fragment
        if cute.arch.vote_any_sync(scaling[0] != 1.0 or scaling[1] != 1.0):
            for half in cutlass.range_constexpr(2):
                for pair in cutlass.range_constexpr(HALF // 8):
                    for i in cutlass.range_constexpr(2):
                        fragment[i, half, pair] = fragment[i, half, pair] * scaling[half]

    @cute.jit
    def add(self, shared: Any, stage: cutlass.Int32) -> None:
        """Add the weighted values of a stage: the first columns of its latents, transposed."""
        stages, weigh = shared.stages, self.weigh
        transposed = cute.make_tensor(stages.iterator, cute.select(stages.layout, mode=[1, 0, 2]))
        columns = cute.local_tile(transposed, (HALF, cute.size(stages, mode=[0])), (self.part, 0, None))
        group = weigh.get_slice(0)
        first = weigh.make_fragment_A(group.partition_A(shared.weights))
        second = weigh.make_fragment_B(group.partition_B(columns))
        warpgroup.fence()
        for k in cutlass.range_constexpr(cute.size(first, mode=[2])):
            cute.gemm(weigh, self.total, first[None, None, k, 0], second[None, None, k, stage], self.total)
        warpgroup.commit_group()
        warpgroup.wait_group(0)

    @cute.jit
    def store(self, work: Any, shared: Any, out: cute.Tensor, out_parts: cute.Tensor) -> None:
        """Write to the result, or to the workspace. A split without latents writes nothing to the workspace.

        Rows are staged in shared memory, in place of the stages, so that a warp writes long contiguous pieces.
        """
        fragment, rows = self.fragment, shared.rows + self.part * (HEADS * PITCH)
        for half in cutlass.range_constexpr(2):
            for pair in cutlass.range_constexpr(HALF // 8):
                start = row(self.thread, half) * PITCH + column(self.thread, pair)
                two = cute.make_tensor(rows + cute.assume(start, divby=2), cute.make_layout(2))
                cute.autovec_copy(fragment[None, half, pair], two)
        cute.arch.sync_warp()  # a warp reads only rows that it has written itself
        if work.splits > 1:
            if work.steps > 0:
                offset = cute.crd2idx((work.split, work.sequence, 0, 0), out_parts.layout)
                self.write(work, rows, out_parts, offset, out_parts.stride[2])
        else:
            self.write(work, rows, out, cutlass.Int64(work.sequence) * out.stride[0], out.stride[1])

    @cute.jit
    def write(self, work: Any, rows: cute.Pointer, to: cute.Tensor, offset: Any, head_stride: Any) -> None:
        """Write a warp's rows, 16 bytes in each lane, to their heads: the first is at ``offset``."""
        vector = 128 // to.element_type.width
        result = cute.make_rmem_tensor(vector, to.element_type)
        for i in cutlass.range(WARP // 2, unroll=4):
            number = row(self.thread, 0) // 16 * 16 + i
            head = work.tile * HEADS + number
            if head < cute.size(to, mode=[cute.rank(to) - 2]):
                for piece in cutlass.range_constexpr(HALF // (WARP * vector)):
                    start = (piece * WARP + self.thread % WARP) * vector
                    source = rows + cute.assume(number * PITCH + start, divby=4)
                    numbers = cute.make_tensor(source, cute.make_layout(vector)).load()
                    result.store(numbers.to(to.element_type))
                    target = offset + cutlass.Int64(head) * head_stride + self.part * HALF + start
                    cute.autovec_copy(result, at(to, target, vector))
