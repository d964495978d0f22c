"""The end of a product: the sums of a tile are reduced over the blocks that split its k, and stored.

A thread of a block has the sums of the same elements of the tile as the thread of the same number in the other blocks.
So what one thread sends, 16 bytes at a time, the other reads back as it is: no layout is needed in between.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import warp

from precast.kernels.own.device.tma_ring import cluster_barrier
from precast.kernels.own.matrix.blocking import GROUP, STAGED, STAGED_BYTES, WARP, Blocking

CLUSTER_BARRIERS = 2  # of a cluster whose blocks split k: after all have multiplied, and after all have sent
_GROUPS = 1  # the named barrier of the first group of warps; 0 is the whole block's
_SENT = 4  # sums of one thread in 8 of the second side: two of these, in two rows of the first
_VECTOR = 8  # 16-bit numbers that are stored at a time


class GemmResult:
    """Reduces and stores the sums, in the threads that multiplied."""

    def __init__(self, blocking: Blocking, out_dtype: Any) -> None:
        self.blocking, self.out_dtype = blocking, out_dtype

    @cute.jit
    def store_alone(
        self,
        total: cute.Tensor,
        memory: cute.Pointer,
        out: cute.Tensor,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
    ) -> None:
        """Store a whole tile, staged in ``memory``, of which each group has a part."""
        self.store(self.sums(total), memory, out, token_tile, row_tile, 0)

    @cute.jit
    def store_shared(
        self,
        total: cute.Tensor,
        memory: cute.Pointer,
        out: cute.Tensor,
        k_slice: cutlass.Int32,
        cta_rank: cutlass.Int32,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
    ) -> None:
        """Add up this block's part of the tile over the slices of k, always in the same order, and store it. ``memory``
        is that of the stages."""
        blocking = self.blocking
        sums = self.sums(total)
        received = cute.recast_ptr(memory, dtype=cutlass.Float32)
        cluster_barrier(blocking.cluster)  # every block has read its stages: they may be overwritten
        for owner in cutlass.range_constexpr(blocking.split):
            if k_slice != owner:
                self.send(sums, received, k_slice, cta_rank, owner)
        cluster_barrier(blocking.cluster)
        for owner in cutlass.range_constexpr(blocking.split):
            if k_slice == owner:
                self.add(sums, received, owner)
                self.store(sums, memory + blocking.received_bytes, out, token_tile, row_tile, owner)

    def sums(self, total: Any) -> Any:
        """A thread's sums as (2 of the second side, 2 rows of the first, groups of 8 of the second, repeats)."""
        blocking = self.blocking
        return cute.make_tensor(total.iterator, cute.make_layout((2, 2, blocking.second // 8, blocking.repeats)))

    @cute.jit
    def store(
        self,
        sums: cute.Tensor,
        memory: cute.Pointer,
        out: cute.Tensor,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
        owner: cutlass.Constexpr,
    ) -> None:
        """Store an owner's part: each group rounds, transposes and stores 64 by up to 64 of it at a time."""
        blocking = self.blocking
        if cutlass.const_expr(self.out_dtype.width == 16):
            thread, _, _ = cute.arch.thread_idx()
            number = thread // GROUP
            group, _ = blocking.group(number)
            staged = cute.recast_ptr(
                memory + cute.assume(group * STAGED_BYTES, divby=STAGED_BYTES), dtype=self.out_dtype
            )
            for repeat in cutlass.range_constexpr(blocking.repeats):
                for begin, end in self.chunks(owner):
                    self.group_barrier(number)  # all have read the previous chunk
                    self.stage(sums, staged, repeat, begin, end)
                    self.group_barrier(number)
                    first = (repeat * blocking.groups + group) * 64
                    token, row = token_tile * blocking.tokens, row_tile * blocking.rows
                    if cutlass.const_expr(blocking.swap):
                        self.write(staged, out, token + begin * 8, row + first, (end - begin) * 8, STAGED)
                    else:
                        self.write(staged, out, token + first, row + begin * 8, STAGED, (end - begin) * 8)
        else:
            self.scatter(sums, out, token_tile, row_tile, owner)

    def chunks(self, owner: int) -> list[tuple[int, int]]:
        """Groups of 8 of the second side of an owner's part that are staged together."""
        first, last, most = self.blocking.first_octet(owner), self.blocking.first_octet(owner + 1), STAGED // 8
        return [(begin, min(begin + most, last)) for begin in range(first, last, most)]

    @cute.jit
    def group_barrier(self, group: cutlass.Int32) -> None:
        """Wait for the threads of this group."""
        cute.arch.barrier(barrier_id=_GROUPS + group, number_of_threads=GROUP)

    @cute.jit
    def send(
        self,
        total: cute.Tensor,
        received: cute.Pointer,
        k_slice: cutlass.Int32,
        cta_rank: cutlass.Int32,
        owner: cutlass.Constexpr,
    ) -> None:
        """Send another block the sums of its part of the tile, through distributed shared memory."""
        blocking = self.blocking
        sender = k_slice
        if k_slice > owner:
            sender = k_slice - 1
        remote = cute.arch.map_dsmem_ptr(received, cta_rank * blocking.split + owner)
        for j, repeat, slot in self.pieces(owner):
            cute.autovec_copy(total[None, None, j, repeat], self.sent(remote, sender, slot))

    @cute.jit
    def add(self, total: cute.Tensor, received: cute.Pointer, owner: cutlass.Constexpr) -> None:
        """Add the sums that the other blocks have sent."""
        for j, repeat, slot in self.pieces(owner):
            mine = total[None, None, j, repeat]
            parts = cute.make_rmem_tensor((_SENT, self.blocking.split - 1), cutlass.Float32)
            for sender in cutlass.range_constexpr(self.blocking.split - 1):
                cute.autovec_copy(self.sent(received, sender, slot), parts[None, sender])
            for i in cutlass.range_constexpr(_SENT):
                for sender in cutlass.range_constexpr(self.blocking.split - 1):
                    mine[i] += parts[i, sender]

    def sent(self, received: Any, sender: Any, slot: int) -> Any:
        """Where a block's sums for this thread are."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        at = (sender * blocking.slots + slot) * (blocking.warps * WARP) + thread
        return cute.make_tensor(received + cute.assume(at * _SENT, divby=_SENT), cute.make_layout((2, 2)))

    def pieces(self, owner: int) -> list[tuple[int, int, int]]:
        """A thread's sums in an owner's part: the group of 8 of the second side, the repeat, and their slot."""
        blocking = self.blocking
        octets = range(blocking.first_octet(owner), blocking.first_octet(owner + 1))
        pairs = [(j, repeat) for j in octets for repeat in range(blocking.repeats)]
        return [(j, repeat, slot) for slot, (j, repeat) in enumerate(pairs)]

    @cute.jit
    def stage(
        self,
        sums: cute.Tensor,
        staged: cute.Pointer,
        repeat: cutlass.Constexpr,
        begin: cutlass.Constexpr,
        end: cutlass.Constexpr,
    ) -> None:
        """Round some groups of 8 of the second side, and store them in shared memory with the elements of a token
        contiguous: by stmatrix, two or four matrices of 8 by 8 at a time, transposed where the weights are first."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        matrix, line, eight = thread % WARP // 8, thread % 8, thread % GROUP // WARP * 2
        for j in cutlass.range_constexpr(begin, end, 2):
            count = min(2, end - j)
            atom = cute.make_copy_atom(
                warp.StMatrix8x8x16bOp(transpose=blocking.swap, num_matrices=2 * count), self.out_dtype
            )
            values = cute.make_rmem_tensor(4 * count, self.out_dtype)
            for i in cutlass.range_constexpr(4 * count):
                values[i] = sums[i % 2, i // 2 % 2, j + i // 4, repeat].to(self.out_dtype)
            first, second = eight + matrix % 2, j - begin + matrix // 2  # in units of 8
            token, column = (second * 8 + line, first) if blocking.swap else (first * 8 + line, second)
            cute.copy(atom, values, self.vector(staged, self.offset(token, column), 4 * count))

    def offset(self, token: Any, column: Any) -> Any:
        """The offset of 8 elements of a token. The XOR spreads 8 tokens over all banks, for stmatrix and for reads."""
        return token * STAGED + (column ^ (token % 8)) * 8

    def vector(self, pointer: Any, offset: Any, count: int = _VECTOR) -> Any:
        """The elements at an offset that is a multiple of 16 bytes."""
        return cute.make_tensor(pointer + cute.assume(offset, divby=_VECTOR), cute.make_layout(count))

    @cute.jit
    def write(
        self,
        staged: cute.Pointer,
        out: cute.Tensor,
        token: Any,
        row: Any,
        tokens: cutlass.Constexpr,
        rows: cutlass.Constexpr,
    ) -> None:
        """Write what a group has staged, 16 bytes at a time: ``tokens`` by ``rows``, from ``token`` and ``row`` on."""
        thread, _, _ = cute.arch.thread_idx()
        width = rows // _VECTOR
        for i in cutlass.range_constexpr(-(-tokens * width // GROUP)):
            number = i * GROUP + thread % GROUP
            line, column = number // width, number % width
            inside = token + line < out.shape[0] and row + column * _VECTOR < out.shape[1]
            if line < tokens and inside:
                values = cute.make_rmem_tensor(_VECTOR, self.out_dtype)
                cute.autovec_copy(self.vector(staged, self.offset(line, column)), values)
                written = cutlass.Int64(token + line) * out.stride[0] + (row + column * _VECTOR)
                cute.autovec_copy(values, self.vector(out.iterator, written))

    @cute.jit
    def scatter(
        self,
        total: cute.Tensor,
        out: cute.Tensor,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
        owner: cutlass.Constexpr,
    ) -> None:
        """Write each sum of an owner's part in float32, without staging. A warp's lanes fill sectors of 32 bytes."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        tokens, rows = token_tile * blocking.tokens, row_tile * blocking.rows
        group, _ = blocking.group(thread // GROUP)
        for j, repeat, _ in self.pieces(owner):
            for i in cutlass.range_constexpr(_SENT):
                line = thread % WARP // 4 + i // 2 * 8
                first = (repeat * blocking.groups + group) * 64 + thread % GROUP // WARP * 16 + line
                second = j * 8 + thread % 4 * 2 + i % 2
                token, row = tokens + first, rows + second
                if cutlass.const_expr(blocking.swap):
                    token, row = tokens + second, rows + first
                if token < out.shape[0] and row < out.shape[1]:
                    at = cutlass.Int64(token) * out.stride[0] + row
                    (out.iterator + at).store(total[i % 2, i // 2, j, repeat].to(self.out_dtype))
