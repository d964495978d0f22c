"""Single instructions that the DSL has no operation for."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute


def copy_async(to: Any, source: Any, size: int, read: Any = None) -> None:
    """Start to copy ``size`` bytes to shared memory. With ``read``, only so many are read, and the rest are zeros.

    If ``read`` is 0, the source is not accessed, so that it may point past the end of a matrix.
    """
    kind = "cg" if size == 16 else "ca"
    read_size, more = ("", []) if read is None else (", {$r2}", [read])
    text = f"cp.async.{kind}.shared.global.L2::128B [{{$r0}}], [{{$r1}}], {size}{read_size};"
    cute.arch.inline_ptx(text, read_only_args=[to, source, *more])


def multiply_f64(shape: tuple[int, int, int], a: Any, b: Any, sums: Any) -> Any:
    """A warp's product of float64 by tensor cores, ``a @ b + sums``: this thread's numbers of each, and of the result.

    With ``group = lane // 4`` and ``member = lane % 4``, number ``i`` of a thread is, of ``a``, in row ``group`` of
    every 8, rows first, and in column ``member`` of every 4; of ``b``, in row ``member`` of every 4 and column
    ``group``; of the sums, in row ``group`` of every 8 and column ``2 * member`` or the next one.
    """
    m, n, k = shape
    counts = {"w": m * n // 32, "a": m * k // 32, "b": k * n // 32}
    first_b, first_c = counts["a"], counts["a"] + counts["b"]
    operand_lists = (
        ", ".join(f"{{$w{i}}}" for i in range(counts["w"])),
        ", ".join(f"{{$r{i}}}" for i in range(first_b)),
        ", ".join(f"{{$r{i}}}" for i in range(first_b, first_c)),
        ", ".join(f"{{$r{i}}}" for i in range(first_c, first_c + counts["w"])),
    )
    operands = ", ".join(f"{{{part}}}" for part in operand_lists)
    return cute.arch.inline_ptx(
        f"mma.sync.aligned.m{m}n{n}k{k}.row.col.f64.f64.f64.f64 {operands};",
        write_only_types=[cutlass.Float64] * counts["w"],
        read_only_args=[*a, *b, *sums],
    )


def read_matrices(source: Any, *, transposed: bool) -> Any:
    """Four matrices of 8 by 8 numbers of 16 bits from shared memory, whose rows of 16 bytes the threads of a warp name:
    the first eight threads those of the first matrix, and so on. A thread gets, of each, two neighbours in row
    ``lane // 4``, at column ``2 * (lane % 4)``, in one register. Transposed, rows are columns."""
    kind = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x4{kind}.shared.b16 {{{{$w0}}, {{$w1}}, {{$w2}}, {{$w3}}}}, [{{$r0}}];"
    return cute.arch.inline_ptx(text, write_only_types=[cutlass.Uint32] * 4, read_only_args=[source])


def multiply_16(dtype: Any, a: Any, b: Any, sums: Any) -> Any:
    """A warp's product of 16 by 16 and 16 by 8 numbers of 16 bits, ``a @ b + sums``, with sums in float32: the four
    registers that a thread has of ``a``, its two of ``b``, and its four numbers of the sums.

    The sums are, with ``group = lane // 4`` and ``member = lane % 4``: of row ``group``, columns ``2 * member`` and the
    next one, then the same of row ``group + 8``.
    """
    kind = {cutlass.BFloat16: "bf16", cutlass.Float16: "f16"}[dtype]
    operands = (
        "{{$w0}, {$w1}, {$w2}, {$w3}}, {{$r0}, {$r1}, {$r2}, {$r3}}, {{$r4}, {$r5}}, {{$r6}, {$r7}, {$r8}, {$r9}}"
    )
    return cute.arch.inline_ptx(
        f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32 {operands};",
        write_only_types=[cutlass.Float32] * 4,
        read_only_args=[*a, *b, *sums],
    )
