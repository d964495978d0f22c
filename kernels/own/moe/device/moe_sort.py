"""``moe_sort`` on the device: one cluster counts the entries of each expert, adds the counts up, and places entries."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from cutlass.utils import SmemAllocator

from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.scans import block_through
from precast.kernels.own.moe.routing import BATCH, THREADS, WARPS, Shares, up
from precast.kernels.own.rows import WARP

_ALL = 0xFFFFFFFF  # lanes


class MoeSort:
    """A stable counting sort. Each warp has a contiguous range of entries, and its own counters.

    First, each warp counts its entries of each expert. Then a thread for each expert computes prefix sums over the
    warps and the blocks, so that each counter is the row of its warp's first entry. Last, the warps go through their
    entries again, in the same order, and assign rows.
    """

    def __init__(self, experts: int, align: int, masked: bool, cluster: int) -> None:
        self.experts, self.align, self.masked, self.cluster = experts, align, masked, cluster
        self.shares = Shares(cluster)

    @cute.jit
    def moe_sort(
        self,
        topk_ids: cute.Tensor,
        counts: cute.Tensor,
        offsets: cute.Tensor,
        sources: cute.Tensor,
        rows: cute.Tensor,
        first: cutlass.Int32,
        stream: Any,
    ) -> None:
        """Launch one cluster. Without entries it writes counts of zero."""
        self.kernel(topk_ids, counts, offsets, sources, rows, first).launch(
            grid=[self.cluster, 1, 1],
            block=[THREADS, 1, 1],
            cluster=[self.cluster, 1, 1],
            stream=stream,
            use_pdl=overlaps(),
        )

    @cute.kernel
    def kernel(
        self,
        topk_ids: cute.Tensor,
        counts: cute.Tensor,
        offsets: cute.Tensor,
        sources: cute.Tensor,
        rows: cute.Tensor,
        first: cutlass.Int32,
    ) -> None:
        """The entries of one block."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        warp = thread // WARP
        shared = SmemAllocator()
        table = cute.make_tensor(
            shared.allocate_array(cutlass.Int32, WARPS * self.experts), cute.make_layout(WARPS * self.experts)
        )
        totals = shared.allocate_array(cutlass.Int32, self.experts)
        sums = cute.make_tensor(shared.allocate_array(cutlass.Int32, WARPS), cute.make_layout(WARPS))
        for i in cutlass.range(thread, WARPS * self.experts, THREADS, unroll=1):
            table[i] = cutlass.Int32(0)
        wait_for_previous_launch()
        capacity = cutlass.Int32(cute.size(sources))
        for i in cutlass.range(block * THREADS + thread, capacity, self.cluster * THREADS, unroll=1):
            sources[i] = cutlass.Int32(-1)
        cute.arch.sync_threads()

        entries = cutlass.Int32(cute.size(topk_ids))
        start = self.shares.first(entries, block, warp)
        end = cutlass.min(start + self.shares.steps(entries) * WARP, entries)
        warp_counters = cute.make_tensor(table.iterator + warp * self.experts, cute.make_layout(self.experts))
        self.walk(topk_ids, first, start, end, warp_counters, sources, rows, capacity, store=False)
        cute.arch.sync_threads()
        total = self.add_up(table, totals)
        # Other blocks read the totals below. And ``sources`` was set to -1 by other blocks: that must be visible before
        # an entry is stored there.
        self.sync()
        before, expert_total = self.across(totals, total, block)
        self.begin(table, counts, offsets, sums, before, expert_total, capacity, block)
        cute.arch.sync_threads()
        self.walk(topk_ids, first, start, end, warp_counters, sources, rows, capacity, store=True)
        # No block may exit while others still read its totals in its shared memory.
        self.sync()

    @cute.jit
    def walk(
        self,
        topk_ids: cute.Tensor,
        first: cutlass.Int32,
        start: cutlass.Int32,
        end: cutlass.Int32,
        counters: cute.Tensor,
        sources: cute.Tensor,
        rows: cute.Tensor,
        capacity: cutlass.Int32,
        store: cutlass.Constexpr,
    ) -> None:
        """Go through the entries of a warp in order: count them, or also store them."""
        lane = cute.arch.lane_idx()
        keys = cute.make_rmem_tensor(BATCH, cutlass.Int32)
        for at in cutlass.range(start, end, BATCH * WARP, unroll=1):
            for i in cutlass.range_constexpr(BATCH):
                keys[i] = self.key(topk_ids, at + i * WARP + lane, end, first)
            for i in cutlass.range_constexpr(BATCH):
                self.step(keys[i], at + i * WARP + lane, end, counters, sources, rows, capacity, store)

    @cute.jit
    def key(self, topk_ids: cute.Tensor, entry: cutlass.Int32, end: cutlass.Int32, first: cutlass.Int32) -> Any:
        """The number of an entry's expert among those here, or the first number that none has."""
        key = cutlass.Int32(self.experts)
        if entry < end:
            expert = cutlass.Int64((topk_ids.iterator + entry).load()) - first
            if expert >= 0 and expert < self.experts:
                key = cutlass.Int32(expert)
        return key

    @cute.jit
    def step(
        self,
        key: cutlass.Int32,
        entry: cutlass.Int32,
        end: cutlass.Int32,
        counters: cute.Tensor,
        sources: cute.Tensor,
        rows: cute.Tensor,
        capacity: cutlass.Int32,
        store: cutlass.Constexpr,
    ) -> None:
        """The entries of the 32 lanes. The last of the lanes with the same expert adds all of them to its counter."""
        peers = cute.arch.match_sync(_ALL, key)
        before = cutlass.Int32(cute.arch.popc(peers & cute.arch.lanemask_lt()))
        count = cutlass.Int32(cute.arch.popc(peers))
        if cutlass.const_expr(store):
            row = cutlass.Int32(-1)
            if key < self.experts:
                row = counters[key] + before
                limit = capacity
                if cutlass.const_expr(self.masked):
                    limit = (key + 1) * (capacity // self.experts)
                if row < limit:
                    sources[row] = entry
                else:
                    row = cutlass.Int32(-1)
            if entry < end:
                (rows.iterator + entry).store(row)
            cute.arch.sync_warp()  # all lanes have read the counter before one changes it
        if key < self.experts and before == count - 1:
            counters[key] = counters[key] + count
        cute.arch.sync_warp()

    @cute.jit
    def add_up(self, table: cute.Tensor, totals: cute.Pointer) -> cutlass.Int32:
        """Replace the counters of each expert by the counts of the warps before. Store and return the block's total."""
        thread, _, _ = cute.arch.thread_idx()
        total = cutlass.Int32(0)
        if thread < self.experts:
            for warp in cutlass.range_constexpr(WARPS):
                count = table[warp * self.experts + thread]
                table[warp * self.experts + thread] = total
                total += count
            (totals + thread).store(total)
        return total

    @cute.jit
    def across(self, totals: cute.Pointer, total: cutlass.Int32, block: cutlass.Int32) -> Any:
        """Entries of this thread's expert in the blocks before this one, and in all blocks."""
        thread, _, _ = cute.arch.thread_idx()
        before, expert_total = cutlass.Int32(0), total
        if cutlass.const_expr(self.cluster > 1):
            expert_total = cutlass.Int32(0)
            if thread < self.experts:
                for peer in cutlass.range_constexpr(self.cluster):
                    count = cute.arch.map_dsmem_ptr(totals + thread, peer).load()
                    expert_total += count
                    if peer < block:
                        before += count
        return before, expert_total

    @cute.jit
    def begin(
        self,
        table: cute.Tensor,
        counts: cute.Tensor,
        offsets: cute.Tensor,
        sums: cute.Tensor,
        before: cutlass.Int32,
        expert_total: cutlass.Int32,
        capacity: cutlass.Int32,
        block: cutlass.Int32,
    ) -> None:
        """Add to each counter the first row of this block's part of the expert; the first block writes the results."""
        thread, _, _ = cute.arch.thread_idx()
        if cutlass.const_expr(self.masked):
            rows_of_expert = capacity // self.experts
            start, end, size = thread * rows_of_expert, (thread + 1) * rows_of_expert, rows_of_expert
        else:
            padded = up(expert_total, self.align)
            end = block_through(padded, sums)
            start = cutlass.min(end - padded, capacity)
            end = cutlass.min(end, capacity)
            size = capacity - start
        if thread < self.experts:
            for warp in cutlass.range_constexpr(WARPS):
                table[warp * self.experts + thread] = table[warp * self.experts + thread] + start + before
            if block == 0:
                counts[thread] = cutlass.min(expert_total, size)
                offsets[thread] = start
                if thread == self.experts - 1:
                    offsets[self.experts] = end

    @cute.jit
    def sync(self) -> None:
        """Wait for all threads of the cluster, or of the block if it is alone. Earlier writes are visible after."""
        if cutlass.const_expr(self.cluster > 1):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()


def compile_moe_sort(index: Any, experts: int, align: int, masked: bool, cluster: int) -> Any:
    """Compile for some experts: tokens, choices and room are free."""
    tokens, choices, capacity = cute.sym_int(), cute.sym_int(), cute.sym_int()

    def vector(size: Any) -> Any:
        return make_fake_compact_tensor(cutlass.Int32, (size,), stride_order=(0,), assumed_align=4)

    def matrix(dtype: Any) -> Any:
        return make_fake_compact_tensor(dtype, (tokens, choices), stride_order=(1, 0), assumed_align=dtype.width // 8)

    return cute.compile(
        MoeSort(experts, align, masked, cluster).moe_sort,
        matrix(index),
        vector(experts),
        vector(experts + 1),
        vector(capacity),
        matrix(cutlass.Int32),
        cutlass.Int32(0),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
