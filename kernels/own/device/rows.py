"""Rows that the lanes of a block share: read once if they fit in registers, otherwise once in each pass over them."""

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
    """The rows of a block: each lane holds some vectors of a row, in memory order.

    A row that fits stays in registers, as one group of vectors. A longer one is processed in groups of a few vectors:
    each pass reads them again, mostly from the L2 cache. Step ``group * depth + i`` of a row is vector ``i`` of a
    group. The group of a row in registers is 0 at compile time, so that vectors that every lane has need no bounds
    check.

    The blocks of a cluster have equal parts of a row: then the split is that of a part, with one row for each block.

    A row, or such a part, that is ``staged`` is copied to shared memory, from which passes read it in groups. It takes
    no registers, so that more blocks run at once, and one reads while another writes. The first pass takes each group
    as it arrives."""

    def __init__(self, split: Split, cluster: int = 1, staged: bool = False) -> None:
        self.split = split
        self.cluster = cluster
        self.staged = staged
        self.in_registers = split.fits_registers and not staged
        self.depth = split.steps if self.in_registers else max(2, -(-split.steps // _GROUPS)) if staged else _GROUP
        self.groups = -(-split.steps // self.depth)

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return self.split.vectors * self.split.vector * self.cluster

    @cute.jit
    def grid(self, x: cute.Tensor) -> cutlass.Int32:
        """The number of blocks; without rows it is one, which has nothing to do: a grid must not be empty."""
        # x.shape[0] is truncated to 32 bits inside a kernel; cute.size is not.
        return cutlass.max(cutlass.Int32(self.split.blocks(cute.size(x, mode=[0]))), 1) * self.cluster

    @cute.jit
    def first(self) -> cutlass.Int64:
        """The first row of this block, and of all blocks of its cluster."""
        block, _, _ = cute.arch.block_idx()
        return cutlass.Int64(block // self.cluster) * self.split.rows

    @cute.jit
    def offset(self, tensor: cute.Tensor, row: Any) -> Any:
        """The offset of this block's part of a row."""
        start = row * tensor.stride[0]
        if cutlass.const_expr(self.cluster > 1):
            start = start + self.part() * (self.columns // self.cluster)
        return start

    @cute.jit
    def part(self) -> Any:
        """The index of this block's part of the row."""
        return cute.arch.block_idx_in_cluster() if cutlass.const_expr(self.cluster > 1) else 0

    @property
    def cluster_shape(self) -> list[int] | None:
        """The shape of the cluster at the launch; None without a cluster."""
        return [self.cluster, 1, 1] if self.cluster > 1 else None

    @cute.jit
    def cluster_barrier(self) -> None:
        """Wait until every block of the cluster has started: before that, its shared memory must not be written."""
        if cutlass.const_expr(self.cluster > 1):
            cute.arch.cluster_arrive_relaxed()
            cute.arch.cluster_wait()

    def registers(self, dtype: Any) -> cute.Tensor:
        """Registers for a group of this lane's vectors."""
        return cute.make_rmem_tensor((self.split.vector, self.depth), dtype)

    @cute.jit
    def index(self, group: Any, i: cutlass.Constexpr) -> Any:
        """The index of the row's vector that this lane takes in a step; it may be past the end of the row."""
        return self.split.index(cute.arch.thread_idx()[0], group * self.depth + i)

    def complete(self, group: Any, i: int) -> bool:
        """Whether every lane has a vector in a step, as far as is known at compile time."""
        return isinstance(group, int) and self.split.whole(group * self.depth + i)

    def present(self, row: Any, total: Any) -> Any:
        """Whether this lane's row exists; the block's first row does. True if that is known at compile time.

        Lanes without a row must not read another lane's: it may be overwritten in place at the same time.
        """
        return True if self.split.rows == 1 else row < total

    def has(self, group: Any, i: int, present: Any) -> Any:
        """Whether this lane has a vector in a step; True if that is known at compile time."""
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
        """Load a group of this lane's vectors of the row at an offset; vectors that it lacks are filled with
        ``absent``."""
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
        """Start to copy this block's part of a row to shared memory, in groups. A lane copies the vectors that it will
        read itself, so that waiting for its own copies is enough and no barrier is needed."""
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
        values: cute.Tensor,
        step: cutlass.Constexpr,
        total: Any,
        absent: cutlass.Constexpr = 0.0,
    ) -> Any:
        """One pass over a row: ``total = step(total, group)``, with each group in turn loaded into ``values``.

        A row in registers is there already. Every pass waits for each group of a staged row.
        """
        if cutlass.const_expr(self.in_registers):
            total = step(total, 0)
        elif cutlass.const_expr(self.staged):
            for group in cutlass.range_constexpr(self.groups):
                cute.arch.cp_async_wait_group(self.groups - 1 - group)
                self.fetch(tensor, base, group, values, absent)
                total = step(total, group)
        else:
            for group in cutlass.range(self.groups, unroll=1):
                self.fetch(tensor, base, group, values, absent)
                total = step(total, group)
        return total

    @cute.jit
    def store(self, out: cute.Tensor, base: cutlass.Int64, group: Any, i: cutlass.Constexpr, values: Any) -> None:
        """Round one vector of a group and store it, unless it is past the end of the row."""
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
        """Warps that share a row, in all blocks of its cluster; a power of two."""
        return self.split.warps * self.cluster

    @cute.jit
    def shared(self, value: Any, operation: cutlass.Constexpr) -> Any:
        """Combine the values of all lanes of a row: by shuffles in a warp, through shared memory across warps."""
        return self.across(self.in_warp(value, operation), operation)

    @cute.jit
    def in_warp(self, value: Any, operation: cutlass.Constexpr) -> Any:
        """Combine the values of the lanes of a row in one warp."""
        return cute.arch.warp_reduction(value, operation, threads_in_group=min(self.split.lanes, WARP))

    @cute.jit
    def across(self, total: Any, operation: cutlass.Constexpr) -> Any:
        """Combine the values of the warps of a row."""
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
    def exchange(self, values: Any) -> Any:
        """Exchange values among all warps that share a row: returns, for each value, a tensor with that of each warp.

        The values are the same in all lanes of a warp. In a cluster, one lane writes to each block. Each exchange has
        its own memory, so that the next one may start before others have read this one. No block exits before all have
        written to its shared memory, and all have started: ``cluster_barrier`` was called before.
        """
        thread, _, _ = cute.arch.thread_idx()
        lane, warp = thread % WARP, thread // WARP
        warps = self.split.threads // WARP
        buffers = [cute.arch.alloc_smem(type(value), warps * self.cluster) for value in values]
        if cutlass.const_expr(self.cluster > 1):
            if lane < self.cluster:
                for i in cutlass.range_constexpr(len(values)):
                    source = cute.make_rmem_tensor(1, type(values[i]))
                    source[0] = values[i]
                    target = cute.arch.map_dsmem_ptr(buffers[i] + (self.part() * warps + warp), lane)
                    cute.autovec_copy(source, cute.make_tensor(target, cute.make_layout(1)))
            cute.arch.cluster_arrive()  # release: writes to distributed shared memory are visible after the wait
            cute.arch.cluster_wait()
        else:
            if lane == 0:
                for i in cutlass.range_constexpr(len(values)):
                    (buffers[i] + warp).store(values[i])
            cute.arch.sync_threads()
        first = self.split.first_warp(thread) if cutlass.const_expr(self.cluster == 1) else 0
        return [cute.make_tensor(buffer + first, cute.make_layout(self.warps_per_row)) for buffer in buffers]

    @cute.jit
    def combined(self, partials: cute.Tensor, operation: cutlass.Constexpr) -> Any:
        """Combine the partial results of all warps: a lane takes every thirty-second."""
        total = self.partial(partials, 0)
        for step in cutlass.range_constexpr(1, self.partials_per_lane):
            total = operation(total, self.partial(partials, step))
        return cute.arch.warp_reduction(total, operation, threads_in_group=min(self.warps_per_row, WARP))

    @property
    def partials_per_lane(self) -> int:
        """Partial results that a lane takes."""
        return max(1, self.warps_per_row // WARP)

    @cute.jit
    def partial(self, partials: cute.Tensor, step: cutlass.Constexpr) -> Any:
        """A lane's partial result. With fewer results than lanes, they repeat: the reduction ignores the copies."""
        return partials[cute.arch.lane_idx() % min(self.warps_per_row, WARP) + step * WARP]


def matrix(dtype: Any, rows: Any, columns: int) -> Any:
    """A placeholder for a matrix with any row stride that keeps rows aligned to 16 bytes."""
    stride = cute.sym_int64(divisibility=ALIGN * 8 // dtype.width)
    return make_fake_tensor(dtype, (rows, columns), (stride, 1), assumed_align=ALIGN)


def vector(dtype: Any, columns: int) -> Any:
    """A placeholder for one row, such as weights."""
    return make_fake_compact_tensor(dtype, (columns,), stride_order=(0,), assumed_align=ALIGN)
