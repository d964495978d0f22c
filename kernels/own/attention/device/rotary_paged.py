"""``rotary_paged`` on the device: a few lanes share a head, and a few blocks a token."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream, make_fake_tensor

from precast.kernels.own.attention.heads import VECTOR, Heads
from precast.kernels.own.device.overlap import overlaps, wait_for_previous_launch
from precast.kernels.own.device.vectors import ALIGN, at


class RotaryPaged:
    """Rotates queries and keys of tokens, and writes keys and values into the pages of a cache.

    Everything is computed in float32 and rounded once. A token's part of a block is known from the block's number
    alone, so that all its threads take the same branch, and lanes that share a head may exchange sums.
    """

    def __init__(self, heads: Heads, page: int) -> None:
        self.heads = heads
        self.page = page

    @cute.jit
    def rotary_paged(
        self,
        qkv: cute.Tensor,
        cos_sin: cute.Tensor,
        positions: cute.Tensor,
        slots: cute.Tensor,
        q: cute.Tensor,
        k_cache: cute.Tensor,
        v_cache: cute.Tensor,
        q_weight: cute.Tensor | None,
        k_weight: cute.Tensor | None,
        eps: cutlass.Float32 | None,
        k_scale: cute.Tensor | None,
        v_scale: cute.Tensor | None,
        stream: Any,
    ) -> None:
        """Launch; no tokens still take one block, which finds nothing to do."""
        blocks = cutlass.max(cutlass.Int32(qkv.shape[0]) * self.heads.parts, 1)
        self.kernel(
            qkv, cos_sin, positions, slots, q, k_cache, v_cache, q_weight, k_weight, eps, k_scale, v_scale
        ).launch(grid=[blocks, 1, 1], block=[self.heads.threads, 1, 1], stream=stream, use_pdl=overlaps())

    @cute.kernel
    def kernel(
        self,
        qkv: cute.Tensor,
        cos_sin: cute.Tensor,
        positions: cute.Tensor,
        slots: cute.Tensor,
        q: cute.Tensor,
        k_cache: cute.Tensor,
        v_cache: cute.Tensor,
        q_weight: cute.Tensor | None,
        k_weight: cute.Tensor | None,
        eps: cutlass.Float32 | None,
        k_scale: cute.Tensor | None,
        v_scale: cute.Tensor | None,
    ) -> None:
        """A part of one token."""
        thread, _, _ = cute.arch.thread_idx()
        block, _, _ = cute.arch.block_idx()
        wait_for_previous_launch()
        heads = self.heads
        token = heads.token(block)
        if token < qkv.shape[0]:
            index = heads.index(block, thread)
            # Lanes past the last head read the last lane's vectors, and write nothing.
            safe = cutlass.min(index, heads.total - 1)
            head, lane = heads.head(safe), heads.lane(safe)
            first, second = heads.first(lane), heads.second(lane)
            source = cutlass.Int64(token) * qkv.stride[0] + head * heads.size
            part, other = self.fetch(qkv, source + first), self.fetch(qkv, source + second)
            if cutlass.const_expr(eps is not None):
                self.normalise(part, other, head, first, second, q_weight, k_weight, eps)
            if head < heads.queries + heads.keys and lane < heads.rotating_lanes:
                self.rotate(part, other, cos_sin, positions[token], lane)
            if index < heads.total:
                if head < heads.queries:
                    target = cutlass.Int64(token) * q.stride[0] + head * heads.size
                    self.write(part, q, target + first)
                    self.write(other, q, target + second)
                else:
                    slot = cutlass.Int64(slots[token])
                    if slot >= 0:
                        if head < heads.queries + heads.keys:
                            self.keep(part, other, k_cache, slot, head - heads.queries, first, second, k_scale)
                        else:
                            values = head - heads.queries - heads.keys
                            self.keep(part, other, v_cache, slot, values, first, second, v_scale)

    @cute.jit
    def fetch(self, tensor: cute.Tensor, offset: cutlass.Int64) -> cute.Tensor:
        """A vector in float32, in registers."""
        stored = cute.make_rmem_tensor(VECTOR, tensor.element_type)
        cute.autovec_copy(at(tensor, offset, VECTOR), stored)
        values = cute.make_rmem_tensor(VECTOR, cutlass.Float32)
        values.store(stored.load().to(cutlass.Float32))
        return values

    @cute.jit
    def write(self, values: cute.Tensor, tensor: cute.Tensor, offset: cutlass.Int64) -> None:
        """Round a vector and store it."""
        stored = cute.make_rmem_tensor(VECTOR, tensor.element_type)
        stored.store(values.load().to(tensor.element_type))
        cute.autovec_copy(stored, at(tensor, offset, VECTOR))

    @cute.jit
    def rotate(self, part: cute.Tensor, other: cute.Tensor, cos_sin: cute.Tensor, position: Any, lane: Any) -> None:
        """Rotate a lane's two vectors, each pair of elements by its own angle."""
        row = cutlass.Int64(position) * cos_sin.stride[0] + lane * VECTOR
        cos = self.fetch(cos_sin, row).load()
        sin = self.fetch(cos_sin, row + self.heads.rotated // 2).load()
        x, y = part.load(), other.load()
        part.store(x * cos - y * sin)
        other.store(y * cos + x * sin)

    @cute.jit
    def normalise(
        self,
        part: cute.Tensor,
        other: cute.Tensor,
        head: Any,
        first: Any,
        second: Any,
        q_weight: cute.Tensor,
        k_weight: cute.Tensor,
        eps: cutlass.Float32,
    ) -> None:
        """The norm of each head of queries and keys. All lanes of a warp take part in the sum, those of values too."""
        heads = self.heads
        x, y = part.load(), other.load()
        squares = (x * x + y * y).reduce(cute.ReductionOp.ADD, cutlass.Float32(0), 0)
        total = cute.arch.warp_reduction_sum(squares, threads_in_group=heads.lanes)
        factor = cute.math.rsqrt(total * (1.0 / heads.size) + eps)
        if head < heads.queries:
            self.scale(part, other, factor, q_weight, first, second)
        elif head < heads.queries + heads.keys:
            self.scale(part, other, factor, k_weight, first, second)

    @cute.jit
    def scale(
        self, part: cute.Tensor, other: cute.Tensor, factor: Any, weight: cute.Tensor, first: Any, second: Any
    ) -> None:
        """Multiply a lane's vectors by a factor and their weights."""
        part.store(part.load() * factor * self.fetch(weight, cutlass.Int64(first)).load())
        other.store(other.load() * factor * self.fetch(weight, cutlass.Int64(second)).load())

    @cute.jit
    def keep(
        self,
        part: cute.Tensor,
        other: cute.Tensor,
        cache: cute.Tensor,
        slot: cutlass.Int64,
        head: Any,
        first: Any,
        second: Any,
        scale: cute.Tensor | None,
    ) -> None:
        """Write a lane's vectors into its slot, divided by the scale where there is one."""
        target = slot // self.page * cache.stride[0] + slot % self.page * cache.stride[1] + head * cache.stride[2]
        if cutlass.const_expr(scale is not None):
            factor = 1.0 / scale[0]  # storing as float8 clamps, and keeps NaN
            part.store(part.load() * factor)
            other.store(other.load() * factor)
        self.write(part, cache, target + first)
        self.write(other, cache, target + second)


def compile_rotary_paged(
    dtype: Any, table: Any, index: Any, stored: Any, heads: Heads, page: int, *, norm: bool, scaled: bool
) -> Any:
    """Compile for one shape of heads and of a page; tokens, pages and all strides but the last are free."""
    tokens, positions, pages = cute.sym_int(), cute.sym_int(), cute.sym_int()

    def tensor(dtype: Any, *shape: Any) -> Any:
        free = tuple(cute.sym_int64(divisibility=VECTOR) for _ in shape[:-1])
        return make_fake_tensor(dtype, shape, (*free, 1), assumed_align=ALIGN)

    def vector(dtype: Any, size: Any) -> Any:
        return make_fake_tensor(dtype, (size,), (1,), assumed_align=dtype.width // 8)

    def cache() -> Any:
        return tensor(stored, pages, page, heads.keys, heads.size)

    def weight() -> Any:
        return tensor(dtype, heads.size) if norm else None

    return cute.compile(
        RotaryPaged(heads, page).rotary_paged,
        tensor(dtype, tokens, (heads.queries + 2 * heads.keys) * heads.size),
        tensor(table, positions, heads.rotated),
        vector(index, tokens),
        vector(index, tokens),
        tensor(dtype, tokens, heads.queries * heads.size),
        cache(),
        cache(),
        weight(),
        weight(),
        cutlass.Float32(1e-6) if norm else None,
        vector(cutlass.Float32, 1) if scaled else None,
        vector(cutlass.Float32, 1) if scaled else None,
        make_fake_stream(use_tvm_ffi_env_stream=True),
        options="--enable-tvm-ffi",
    )
