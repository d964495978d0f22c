"""Rows that the lanes of a block share: read once where they fit in registers, else once for each pass over them."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu.cpasync import CopyG2SOp
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_tensor
from cutlass.utils import SmemAllocator

from precast.kernels.own.device.vectors import ALIGN, at
from precast.kernels.own.rows import WARP, Split

_GROUP = 4  # vectors in flight in each lane where a row does not fit in registers
_GROUPS = 4  # of a staged row: the first is read while the others are under way


class Rows:
    """The rows of a block, each lane with its vectors of one, as they lie in memory.

    A row that fits is held from first to last, as one group of vectors. A longer one is taken in groups of a few: each
    pass over it reads them again, mostly from the L2 cache. The step ``group * depth + i`` of a row is vector ``i`` of
    a group. A group is 0 at compile time where a row is held, so that steps that every lane has are not checked.

    The blocks of a cluster share a row in equal parts: then the split is that of a part, of one row for each block.

    A row, or such a part, that is ``staged`` waits in shared memory, from where passes read it in groups: it takes no
    registers, so that more blocks run at once, and one reads while another writes. The first pass takes each group as
    it arrives.
    """

    def __init__(self, split: Split, cluster: int = 1, staged: bool = False) -> None:
        self.split = split
        self.cluster = cluster
        self.staged = staged
        self.held = split.held and not staged
        self.depth = split.steps if self.held else max(2, -(-split.steps // _GROUPS)) if staged else _GROUP
        self.groups = -(-split.steps // self.depth)

    @property
    def columns(self) -> int:
        """How many elements a row has."""
        return self.split.vectors * self.split.vector * self.cluster

    @cute.jit
    def grid(self, x: cute.Tensor) -> cutlass.Int32:
        """How many blocks the rows take; one, which has nothing to do, where there is no row."""
        # x.shape[0] would be cut to 32 bits
        return cutlass.max(cutlass.Int32(self.split.blocks(cute.size(x, mode=[0]))), 1) * self.cluster

    @cute.jit
    def first(self) -> cutlass.Int64:
        """The first row of this block, which all blocks of its cluster have."""
        block, _, _ = cute.arch.block_idx()
        return cutlass.Int64(block // self.cluster) * self.split.rows

    @cute.jit
    def offset(self, tensor: cute.Tensor, row: Any) -> Any:
        """Where this block's part of a row begins."""
        start = row * tensor.stride[0]
        if cutlass.const_expr(self.cluster > 1):
            start = start + self.part() * (self.columns // self.cluster)
        return start

    @cute.jit
    def part(self) -> Any:
        """Which part of its row this block has."""
        return cute.arch.block_idx_in_cluster() if cutlass.const_expr(self.cluster > 1) else 0

    @property
    def cluster_shape(self) -> list[int] | None:
        """The shape of the cluster at the launch; None without a cluster."""
        return [self.cluster, 1, 1] if self.cluster > 1 else None

    @cute.jit
    def meet(self) -> None:
        """Wait until every block of the cluster has begun, and may be written to."""
        if cutlass.const_expr(self.cluster > 1):
            cute.arch.cluster_arrive_relaxed()
            cute.arch.cluster_wait()

    def registers(self, dtype: Any) -> cute.Tensor:
        """Registers for a group of this lane's vectors."""
        return cute.make_rmem_tensor((self.split.vector, self.depth), dtype)

    @cute.jit
    def index(self, group: Any, i: cutlass.Constexpr) -> Any:
        """The vector of the row that this lane takes in a step, if the row has that many."""
        return self.split.index(cute.arch.thread_idx()[0], group * self.depth + i)

    def complete(self, group: Any, i: int) -> bool:
        """Whether it is known at compile time that every lane has a vector in a step."""
        return isinstance(group, int) and self.split.whole(group * self.depth + i)

    def present(self, row: Any, total: Any) -> Any:
        """Whether this lane's row exists, in a block whose first row does: True where that is known at compile time.

        Lanes without a row must not read another: it may be written in place by those that have it.
        """
        return True if self.split.rows == 1 else row < total

    def has(self, group: Any, i: int, present: Any) -> Any:
        """Whether this lane has a vector in a step: True where that is known at compile time."""
        if self.complete(group, i):
            return present
        within = self.index(group, i) < self.split.vectors
        return within if present is True else within & present

    @cute.jit
    def fetch(
        self,
        tensor: cute.Tensor,
        base: cutlass.Int64,
        group: Any,
        into: cute.Tensor,
        absent: cutlass.Constexpr = 0.0,
        present: Any = True,
    ) -> None:
        """Load a group of this lane's vectors of the row at an offset; where it has none, a number in their place."""
        for i in cutlass.range_constexpr(self.depth):
            self.fetch_one(tensor, base, group, i, into[None, i], absent, present)

    @cute.jit
    def fetch_one(
        self,
        tensor: cute.Tensor,
        base: cutlass.Int64,
        group: Any,
        i: cutlass.Constexpr,
        into: cute.Tensor,
        absent: cutlass.Constexpr = 0.0,
        present: Any = True,
    ) -> None:
        """The same for one vector of a group."""
        vector = self.split.vector
        index, has = self.index(group, i), self.has(group, i, present)
        if cutlass.const_expr(has is True):
            cute.autovec_copy(at(tensor, base + index * vector, vector), into)
        else:
            into.fill(absent)
            if has:
                cute.autovec_copy(at(tensor, base + index * vector, vector), into)

    @cute.jit
    def stage(self, tensor: cute.Tensor, base: cutlass.Int64) -> cute.Tensor:
        """Shared memory to which this block's part of a row is under way, group by group. A lane brings the vectors
        that it takes, and sees no others."""
        vector, size = self.split.vector, self.columns // self.cluster
        buffer = SmemAllocator().allocate_array(tensor.element_type, size, byte_alignment=ALIGN)
        waiting = cute.make_tensor(buffer, cute.make_layout(size))
        width = tensor.element_type.width
        copy = cute.make_copy_atom(CopyG2SOp(), tensor.element_type, num_bits_per_copy=vector * width)
        for group in cutlass.range_constexpr(self.groups):
            for i in cutlass.range_constexpr(min(self.depth, self.split.steps - group * self.depth)):
                index = self.index(group, i)
                if index < self.split.vectors:
                    cute.copy(copy, at(tensor, base + index * vector, vector), at(waiting, index * vector, vector))
            cute.arch.cp_async_commit_group()
        return waiting

    @cute.jit
    def fold(
        self,
        tensor: cute.Tensor,
        base: cutlass.Int64,
        held: cute.Tensor,
        step: cutlass.Constexpr,
        total: Any,
        absent: cutlass.Constexpr = 0.0,
    ) -> Any:
        """One pass over a row: ``total = step(total, group)`` with each group of it in ``held``.

        A row that is held is there already. If it is staged, each group is waited for, in any pass.
        """
        if cutlass.const_expr(self.held):
            total = step(total, 0)
        elif cutlass.const_expr(self.staged):
            for group in cutlass.range_constexpr(self.groups):
                cute.arch.cp_async_wait_group(self.groups - 1 - group)
                self.fetch(tensor, base, group, held, absent)
                total = step(total, group)
        else:
            for group in cutlass.range(self.groups, unroll=1):
                self.fetch(tensor, base, group, held, absent)
                total = step(total, group)
        return total

    @cute.jit
    def store(self, out: cute.Tensor, base: cutlass.Int64, group: Any, i: cutlass.Constexpr, values: Any) -> None:
        """Round one vector of a group and store it, if the row has it."""
        vector = self.split.vector
        index = self.index(group, i)
        result = cute.make_rmem_tensor(vector, out.element_type)
        result.store(values.to(out.element_type))
        if cutlass.const_expr(self.complete(group, i)):
            cute.autovec_copy(result, at(out, base + index * vector, vector))
        else:
            if index < self.split.vectors:
                cute.autovec_copy(result, at(out, base + index * vector, vector))

    @property
    def warps_per_row(self) -> int:
        """How many warps share a row, in all blocks of its cluster; a power of two."""
        return self.split.warps * self.cluster

    @cute.jit
    def shared(self, mine: Any, operation: cutlass.Constexpr) -> Any:
        """The values of all lanes of a row, combined: by shuffles in a warp, through shared memory across warps."""
        return self.across(self.in_warp(mine, operation), operation)

    @cute.jit
    def in_warp(self, mine: Any, operation: cutlass.Constexpr) -> Any:
        """The values of the lanes of a row in one warp, combined."""
        return cute.arch.warp_reduction(mine, operation, threads_in_group=min(self.split.lanes, WARP))

    @cute.jit
    def across(self, total: Any, operation: cutlass.Constexpr) -> Any:
        """The values of the warps of a row, combined."""
        if cutlass.const_expr(self.warps_per_row > 1):
            partials = self.exchange([total])[0]
            if cutlass.const_expr(self.cluster == 1):
                total = partials[0]
                for warp in cutlass.range_constexpr(1, self.warps_per_row):
                    total = operation(total, partials[warp])
            else:
                total = self.combined(partials, operation)
        return total

    @cute.jit
    def exchange(self, mine: Any) -> Any:
        """The values of all warps that share a row: for each value of a warp, a tensor with one of each warp.

        The values are the same in all lanes of a warp. In a cluster a lane writes to each block. Each exchange has
        memory of its own, so that the next one may begin before others have read this. No block ends before all have
        written to it. They have all begun, since they met before.
        """
        thread, _, _ = cute.arch.thread_idx()
        lane, warp = thread % WARP, thread // WARP
        warps = self.split.threads // WARP
        buffers = [cute.arch.alloc_smem(type(value), warps * self.cluster) for value in mine]
        if cutlass.const_expr(self.cluster > 1):
            if lane < self.cluster:
                for i in cutlass.range_constexpr(len(mine)):
                    source = cute.make_rmem_tensor(1, type(mine[i]))
                    source[0] = mine[i]
                    target = cute.arch.map_dsmem_ptr(buffers[i] + (self.part() * warps + warp), lane)
                    cute.autovec_copy(source, cute.make_tensor(target, cute.make_layout(1)))
            cute.arch.cluster_arrive()  # what was written before is seen after
            cute.arch.cluster_wait()
        else:
            if lane == 0:
                for i in cutlass.range_constexpr(len(mine)):
                    (buffers[i] + warp).store(mine[i])
            cute.arch.sync_threads()
        first = self.split.first_warp(thread) if cutlass.const_expr(self.cluster == 1) else 0
        return [cute.make_tensor(buffer + first, cute.make_layout(self.warps_per_row)) for buffer in buffers]

    @cute.jit
    def combined(self, partials: cute.Tensor, operation: cutlass.Constexpr) -> Any:
        """The partial results of all warps, combined: a lane takes every thirty-second."""
        total = self.partial(partials, 0)
        for step in cutlass.range_constexpr(1, self.partials_per_lane):
            total = operation(total, self.partial(partials, step))
        return cute.arch.warp_reduction(total, operation, threads_in_group=min(self.warps_per_row, WARP))

    @property
    def partials_per_lane(self) -> int:
        """How many of the partial results a lane takes."""
        return max(1, self.warps_per_row // WARP)

    @cute.jit
    def partial(self, partials: cute.Tensor, step: cutlass.Constexpr) -> Any:
        """A lane's partial result: lanes take them in turn, and begin again where there are fewer than lanes."""
        return partials[cute.arch.lane_idx() % min(self.warps_per_row, WARP) + step * WARP]


def matrix(dtype: Any, rows: Any, columns: int) -> Any:
    """What to compile with in place of a matrix: its row stride is its own, and each row aligned to 16 bytes."""
    stride = cute.sym_int64(divisibility=ALIGN * 8 // dtype.width)
    return make_fake_tensor(dtype, (rows, columns), (stride, 1), assumed_align=ALIGN)


def vector(dtype: Any, columns: int) -> Any:
    """The same for one row, such as weights."""
    return make_fake_compact_tensor(dtype, (columns,), stride_order=(0,), assumed_align=ALIGN)
