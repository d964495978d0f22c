"""``all_reduce`` on the device: ranks wait for each other, read each other's memory, and wait again."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.collective.exchange import Exchange
from precast.kernels.own.device.vectors import ALIGN


class AllReduce:
    """Adds up the vectors of all ranks, in the order of the ranks, in float32.

    A block waits for the block of the same number on every rank before it reads, so that all inputs are complete, and
    again after its last access, so that every rank may reuse its memory.
    """

    def __init__(self, exchange: Exchange, dtype: Any) -> None:
        self.exchange, self.dtype = exchange, dtype

    @cute.jit
    def all_reduce(
        self,
        x: cute.Tensor,
        out: cute.Tensor,
        inputs: cute.Tensor,
        outs: cute.Tensor | None,
        signals: cute.Tensor,
        rank: cutlass.Int32,
        stream: Any,
    ) -> None:
        """Launch equally many blocks on every rank. An empty vector takes one, too: the other ranks wait for it."""
        blocks = cutlass.min(cutlass.max(self.exchange.blocks(cute.size(x)), 1), self.exchange.max_blocks)
        self.kernel(x, out, inputs, outs, signals, rank).launch(
            grid=[cutlass.Int32(blocks), 1, 1], block=[self.exchange.threads, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(
        self,
        x: cute.Tensor,
        out: cute.Tensor,
        inputs: cute.Tensor,
        outs: cute.Tensor | None,
        signals: cute.Tensor,
        rank: cutlass.Int32,
    ) -> None:
        """The part of one block of one rank."""
        exchange = self.exchange
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        grid, _, _ = cute.arch.grid_dim()
        sources = self.addresses(inputs)
        targets = sources
        if cutlass.const_expr(exchange.shots == 2):
            targets = self.addresses(outs)
        self.rank_barrier(signals, rank, block, thread)
        n = cutlass.Int64(cute.size(x))
        whole = n // exchange.vector
        first = cutlass.Int64(exchange.first(n, cutlass.Int64(rank)))
        last = cutlass.min(whole, first + exchange.each(n))
        start = first + cutlass.Int64(block) * exchange.threads + thread
        step = cutlass.Int64(grid) * exchange.threads
        for turn in cutlass.range((last - start + step - 1) // step, unroll=1):
            self.add(sources, out, targets, (start + turn * step) * exchange.vector, exchange.vector)
        # The first block adds the elements after the last whole vector: with two shots, that of the first rank.
        rest = cutlass.Int32(n - whole * exchange.vector)
        alone = block + rank * (exchange.shots - 1)
        if alone == 0 and thread < rest:
            self.add(sources, out, targets, whole * exchange.vector + thread, 1)
        self.rank_barrier(signals, rank, block, thread)

    @cute.jit
    def add(
        self,
        sources: cute.Tensor,
        out: cute.Tensor,
        targets: cute.Tensor,
        offset: cutlass.Int64,
        vector: cutlass.Constexpr,
    ) -> None:
        """Sum up a few consecutive elements. All are loaded before the first is added, to overlap the long
        latencies."""
        world = self.exchange.world
        parts = cute.make_rmem_tensor((vector, world), self.dtype)
        for peer in cutlass.range_constexpr(world):
            cute.autovec_copy(self.at(sources[peer], offset, vector), parts[None, peer])
        total = parts[None, 0].load().to(cutlass.Float32)
        for peer in cutlass.range_constexpr(1, world):
            total += parts[None, peer].load().to(cutlass.Float32)
        result = cute.make_rmem_tensor(vector, self.dtype)
        result.store(total.to(self.dtype))
        if cutlass.const_expr(self.exchange.shots == 1):
            to = out.iterator + cute.assume(offset, divby=vector)
            cute.autovec_copy(result, cute.make_tensor(to, cute.make_layout(vector)))
        else:
            for peer in cutlass.range_constexpr(world):
                cute.autovec_copy(result, self.at(targets[peer], offset, vector))

    @cute.jit
    def rank_barrier(
        self, signals: cute.Tensor, rank: cutlass.Int32, block: cutlass.Int32, thread: cutlass.Int32
    ) -> None:
        """Wait until this block of every rank has arrived. What any of them wrote before is visible after.

        A thread sets its signal on one rank from 0 to 1, when the previous one was taken, and the receiver sets it back
        to 0: so all signals are zeros at the end, and a CUDA graph may be replayed. Setting it is a release at system
        scope, and taking it an acquire: these order the accesses to the memory of other GPUs."""
        exchange = self.exchange
        cute.arch.sync_threads()
        if thread < exchange.world:
            to = self.signal(signals[thread] + exchange.signal(block, rank))
            previous = cutlass.Uint32(1)
            while previous != 0:
                previous = cute.arch.atomic_cas(
                    to, cmp=cutlass.Uint32(0), val=cutlass.Uint32(1), sem="release", scope="sys"
                )
            incoming = self.signal(signals[rank] + exchange.signal(block, thread))
            previous = cutlass.Uint32(0)
            while previous != 1:
                previous = cute.arch.atomic_cas(
                    incoming, cmp=cutlass.Uint32(1), val=cutlass.Uint32(0), sem="acquire", scope="sys"
                )
        cute.arch.sync_threads()

    def addresses(self, table: Any) -> Any:
        """A table of addresses, loaded into registers before the ranks wait for each other."""
        table_in_registers = cute.make_rmem_tensor(self.exchange.world, cutlass.Int64)
        for peer in range(self.exchange.world):
            table_in_registers[peer] = table[peer]
        return table_in_registers

    def at(self, address: Any, offset: Any, vector: int) -> Any:
        """A few elements of another rank's vector."""
        width = self.dtype.width // 8
        pointer = cute.make_ptr(
            self.dtype, address + offset * width, cute.AddressSpace.gmem, assumed_align=vector * width
        )
        return cute.make_tensor(pointer, cute.make_layout(vector))

    def signal(self, address: Any) -> Any:
        """A signal at an address."""
        return cute.make_ptr(cutlass.Uint32, address, cute.AddressSpace.gmem, assumed_align=4)


def compile_all_reduce(exchange: Exchange, dtype: Any) -> Any:
    """Compile for a number of ranks; the length is free."""
    n = cute.sym_int64()

    def table() -> Any:
        return make_fake_tensor(cutlass.Int64, (exchange.world,), (1,), assumed_align=8)

    def vector() -> Any:
        return make_fake_tensor(dtype, (n,), (1,), assumed_align=ALIGN)

    operation = AllReduce(exchange, dtype)
    return cute.compile(
        operation.all_reduce,
        vector(),
        vector(),
        table(),
        table() if exchange.shots == 2 else None,
        table(),
        cutlass.Int32(0),
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
