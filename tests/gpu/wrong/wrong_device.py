"""The device code of ``wrong_kernels``: one kernel, and what each kind does wrong."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: ignore-errors
# ruff: noqa: SIM102  (what is known at compile time stands in an `if` of its own)

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream, make_fake_tensor

THREADS = 256


@cute.jit
def one(tensor: cute.Tensor, offset: cutlass.Int64) -> cute.Tensor:
    """The element so far from a tensor's first one, be it inside or not."""
    return cute.make_tensor(tensor.iterator + offset, cute.make_layout(1))


@cute.kernel
def double(x: cute.Tensor, out: cute.Tensor, count: cute.Tensor, kind: cutlass.Constexpr) -> None:
    """A thread for each element."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    rows, columns = cute.size(x, mode=[0]), cute.size(x, mode=[1])
    total = rows * columns
    i = cutlass.Int64(block) * THREADS + thread
    end = total
    if cutlass.const_expr(kind == "huge"):
        end = cutlass.min(total, cutlass.Int64(1 << 31))
    if i < end:
        row = i // columns
        column = i - row * columns
        place = row * x.stride[0] + column
        if cutlass.const_expr(kind == "stride"):
            place = i  # as if no row were padded
        if cutlass.const_expr(kind == "tail"):
            if i >= total // 4 * 4:
                place = place - 1
                if i == 0:
                    place = cutlass.Int64(0)
        value = one(x, place)[0]
        if cutlass.const_expr(kind == "reads"):
            if i == total - 1:
                behind = one(x, place + 1)[0]  # outside, where x fills its memory
                if behind == cutlass.Float32(1.2345e30):
                    value = behind
        result = value * 2.0
        if cutlass.const_expr(kind == "zero"):
            result = value * value / value * 2.0
        if cutlass.const_expr(kind == "again"):
            if count[0] != 0:
                result = value
        mine = True
        if cutlass.const_expr(kind == "unwritten"):
            mine = i != total // 2
        if mine:
            one(out, row * out.stride[0] + column)[0] = result
        if cutlass.const_expr(kind == "changed"):
            if i == 0:
                one(x, cutlass.Int64(0))[0] = value + 1.0
        if cutlass.const_expr(kind == "behind"):
            if i == total - 1:
                one(out, row * out.stride[0] + columns)[0] = value
        if cutlass.const_expr(kind == "before"):
            if i == 0:
                one(out, cutlass.Int64(-1))[0] = value


@cute.kernel
def exchanged(x: cute.Tensor, out: cute.Tensor) -> None:
    """Each thread writes what another one of its block has read; a barrier between the two is missing."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    held = cute.make_tensor(cute.arch.alloc_smem(cutlass.Float32, THREADS), cute.make_layout(THREADS))
    columns = cute.size(x, mode=[1])
    total = cute.size(x, mode=[0]) * columns
    first = cutlass.Int64(block) * THREADS
    i = first + thread
    if i < total:
        held[thread] = x[i // columns, i % columns]
    other = THREADS - 1 - thread
    j = first + other
    if j < total:
        out[j // columns, j % columns] = held[other] * 2.0


@cute.kernel
def counted(count: cute.Tensor) -> None:
    """One more launch; nobody sets it back."""
    if cute.arch.thread_idx()[0] == 0:
        count[0] = count[0] + 1


class Wrong:
    """The host side of one kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @cute.jit
    def launch(self, x: cute.Tensor, out: cute.Tensor, count: cute.Tensor, stream: Any) -> None:
        """Launch one block for each 256 elements, and one for none."""
        total = cute.size(x, mode=[0]) * cute.size(x, mode=[1])
        blocks = cutlass.max(cutlass.Int32((total + THREADS - 1) // THREADS), 1)
        if cutlass.const_expr(self.kind == "race"):
            exchanged(x, out).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1], stream=stream)
        elif cutlass.const_expr(self.kind == "stream"):
            double(x, out, count, self.kind).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1])
        else:
            double(x, out, count, self.kind).launch(grid=[blocks, 1, 1], block=[THREADS, 1, 1], stream=stream)
        if cutlass.const_expr(self.kind == "again"):
            counted(count).launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)


def compile_kind(kind: str) -> Any:
    """Compile one kind, for matrices of any size and row strides."""
    rows, columns = cute.sym_int64(), cute.sym_int64()

    def matrix() -> Any:
        return make_fake_tensor(cutlass.Float32, (rows, columns), (cute.sym_int64(), 1), assumed_align=4)

    count = make_fake_compact_tensor(cutlass.Int32, (1,), stride_order=(0,), assumed_align=4)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(Wrong(kind).launch, matrix(), matrix(), count, stream, options="--enable-tvm-ffi")
