"""The end of a product: sums of a tile, shared out among the blocks that have shares of one k, and stored.

Each thread of a block has the sums of the same places of the tile as that thread of the others. So what one sends,
16 bytes at a time, the other reads, without any other order in between.
"""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import warp

from precast.kernels.own.device.tma_ring import meet
from precast.kernels.own.matrix.blocking import WARP, Blocking

MULTIPLIERS = 1  # the number of the barrier among the warps that multiply; 0 is the whole block's
_SENT = 4  # sums of one thread in eight neighbours of the second side: two of these, in two lines of the first
_STORED = 128  # bits that are stored at a time


class GemmResult:
    """What the threads that multiplied do with their sums. ``memory`` is where the stages were, which are read."""

    def __init__(self, blocking: Blocking, out_dtype: Any) -> None:
        self.blocking, self.out_dtype = blocking, out_dtype

    @cute.jit
    def finish(
        self,
        total: cute.Tensor,
        memory: cute.Pointer,
        out: cute.Tensor,
        share: cutlass.Int32,
        neighbour: cutlass.Int32,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
    ) -> None:
        """Add up this block's part of the tile over the shares of k, in the order of the others, and store it."""
        blocking = self.blocking
        total = cute.make_tensor(total.iterator, cute.make_layout((2, 2, blocking.second // 8, blocking.repeats)))
        if cutlass.const_expr(blocking.split > 1):
            received = cute.recast_ptr(memory, dtype=cutlass.Float32)
            meet(blocking.cluster)  # all have read their stages
            for owner in cutlass.range_constexpr(blocking.split):
                if share != owner:
                    self.send(total, received, share, neighbour, owner)
            meet(blocking.cluster)
            for owner in cutlass.range_constexpr(blocking.split):
                if share == owner:
                    self.add(total, received, owner)
        staged = cute.recast_ptr(memory + blocking.received_bytes, dtype=self.out_dtype)
        for owner in cutlass.range_constexpr(blocking.split):
            if share == owner:
                if cutlass.const_expr(self.out_dtype.width == 16):
                    self.stage(total, staged, owner)
                else:
                    self.scatter(total, out, token_tile, row_tile, owner)
        if cutlass.const_expr(self.out_dtype.width == 16):
            cute.arch.barrier(barrier_id=MULTIPLIERS, number_of_threads=blocking.warps * WARP)
            self.store(staged, out, share, token_tile, row_tile)

    @cute.jit
    def send(
        self,
        total: cute.Tensor,
        received: cute.Pointer,
        share: cutlass.Int32,
        neighbour: cutlass.Int32,
        owner: cutlass.Constexpr,
    ) -> None:
        """Give another block the sums of its part of the tile."""
        blocking = self.blocking
        sender = share
        if share > owner:
            sender = share - 1
        there = cute.arch.map_dsmem_ptr(received, neighbour * blocking.split + owner)
        for j, repeat, slot in self.pieces(owner):
            cute.autovec_copy(total[None, None, j, repeat], self.sent(there, sender, slot))

    @cute.jit
    def add(self, total: cute.Tensor, received: cute.Pointer, owner: cutlass.Constexpr) -> None:
        """Add what the others have sent."""
        for j, repeat, slot in self.pieces(owner):
            mine = total[None, None, j, repeat]
            parts = cute.make_rmem_tensor((_SENT, self.blocking.split - 1), cutlass.Float32)
            for sender in cutlass.range_constexpr(self.blocking.split - 1):
                cute.autovec_copy(self.sent(received, sender, slot), parts[None, sender])
            for i in cutlass.range_constexpr(_SENT):
                for sender in cutlass.range_constexpr(self.blocking.split - 1):
                    mine[i] += parts[i, sender]

    def sent(self, received: Any, sender: Any, slot: int) -> Any:
        """Where a thread's sums are, that a block has sent."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        at = (sender * blocking.slots + slot) * (blocking.warps * WARP) + thread
        return cute.make_tensor(received + cute.assume(at * _SENT, divby=_SENT), cute.make_layout((2, 2)))

    def pieces(self, owner: int) -> list[tuple[int, int, int]]:
        """A thread's sums in an owner's part: the eight of the second side, that of the first, and their slot."""
        blocking = self.blocking
        eights = range(blocking.first_eight(owner), blocking.first_eight(owner + 1))
        pairs = [(j, repeat) for j in eights for repeat in range(blocking.repeats)]
        return [(j, repeat, slot) for slot, (j, repeat) in enumerate(pairs)]

    @cute.jit
    def stage(self, total: cute.Tensor, staged: cute.Pointer, owner: cutlass.Constexpr) -> None:
        """Round an owner's part, and put it into shared memory with the numbers of a token side by side: by matrices
        of 8 by 8, two or four at a time, which are turned where the weights stand first."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        matrix, line = thread % WARP // 8, thread % 8
        for repeat in cutlass.range_constexpr(blocking.repeats):
            first = repeat * 64 * blocking.groups + thread // WARP * 16
            for j, count in self.pairs(owner):
                operation = warp.StMatrix8x8x16bOp(transpose=blocking.swap, num_matrices=2 * count)
                atom = cute.make_copy_atom(operation, self.out_dtype)
                held = cute.make_rmem_tensor(4 * count, self.out_dtype)
                for i in cutlass.range_constexpr(4 * count):
                    held[i] = total[i % 2, i // 2 % 2, j + i // 4, repeat].to(self.out_dtype)
                second = (j - blocking.first_eight(owner)) * 8
                if cutlass.const_expr(blocking.swap):
                    token, row = second + matrix // 2 * 8 + line, first + matrix % 2 * 8
                else:
                    token, row = first + matrix % 2 * 8 + line, second + matrix // 2 * 8
                to = staged + cute.assume(token * blocking.pitch + row, divby=8)
                cute.copy(atom, held, cute.make_tensor(to, cute.make_layout(4 * count)))

    def pairs(self, owner: int) -> list[tuple[int, int]]:
        """Two times eight of the second side of an owner's part at a time, and eight where one is left."""
        begin, end = self.blocking.first_eight(owner), self.blocking.first_eight(owner + 1)
        return [(j, min(2, end - j)) for j in range(begin, end, 2)]

    @cute.jit
    def store(
        self,
        staged: cute.Pointer,
        out: cute.Tensor,
        share: cutlass.Int32,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
    ) -> None:
        """Write this block's part of the tile, 16 bytes at a time."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        vector = _STORED // self.out_dtype.width
        eights = (blocking.first_eight(share), blocking.first_eight(share + 1))
        first_token, first_row = token_tile * blocking.tokens, row_tile * blocking.rows
        tokens, rows = cutlass.Int32(blocking.tokens), out.shape[1]
        width = blocking.part // vector
        if cutlass.const_expr(blocking.swap):
            first_token, tokens = first_token + eights[0] * 8, (eights[1] - eights[0]) * 8
        else:
            first_row, rows = first_row + eights[0] * 8, cutlass.min(rows, first_row + eights[1] * 8)
        vectors = cutlass.min(tokens, cutlass.Int32(out.shape[0]) - first_token) * width
        for i in cutlass.range(thread, vectors, blocking.warps * WARP, unroll=4):
            token, row = i // width, i % width * vector
            if first_row + row < rows:
                held = cute.make_rmem_tensor(vector, self.out_dtype)
                at = staged + cute.assume(token * blocking.pitch + row, divby=vector)
                cute.autovec_copy(cute.make_tensor(at, cute.make_layout(vector)), held)
                offset = cutlass.Int64(first_token + token) * out.stride[0] + (first_row + row)
                to = out.iterator + cute.assume(offset, divby=vector)
                cute.autovec_copy(held, cute.make_tensor(to, cute.make_layout(vector)))

    @cute.jit
    def scatter(
        self,
        total: cute.Tensor,
        out: cute.Tensor,
        token_tile: cutlass.Int32,
        row_tile: cutlass.Int32,
        owner: cutlass.Constexpr,
    ) -> None:
        """Write each sum of an owner's part where it belongs, not rounded. A warp's lanes fill pieces of 32 bytes."""
        blocking = self.blocking
        thread, _, _ = cute.arch.thread_idx()
        tokens, rows = token_tile * blocking.tokens, row_tile * blocking.rows
        for j, repeat, _ in self.pieces(owner):
            for i in cutlass.range_constexpr(_SENT):
                line = thread % WARP // 4 + i // 2 * 8
                first = repeat * 64 * blocking.groups + thread // WARP * 16 + line
                second = j * 8 + thread % 4 * 2 + i % 2
                token, row = tokens + first, rows + second
                if cutlass.const_expr(blocking.swap):
                    token, row = tokens + second, rows + first
                if token < out.shape[0] and row < out.shape[1]:
                    at = cutlass.Int64(token) * out.stride[0] + row
                    (out.iterator + at).store(total[i % 2, i // 2, j, repeat].to(self.out_dtype))
