"""``gemm_f64``: a product of matrices in double precision, on tensor cores.

The compiled function is called as ``gemm_f64(a, b, out)``: ``out`` (m, n) is ``a`` (m, k) times ``b`` (k, n), of any
size. Every other number of the config says how the lines of the matrices lie in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from precast.kernels.authoring.hints import Tuned
from precast.kernels.own.matrix.products import Design, Product, shape_refusal
from precast.kernels.own.matrix.staging import Side, Staging
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

# What one instruction multiplies, (m, n, k), and the first compute capability that has it.
_INSTRUCTIONS = {"8x8x4": (8, 0), "16x8x4": (9, 0), "16x8x8": (9, 0), "16x8x16": (9, 0)}


def staging(design: Design) -> Staging:
    """The staging of a design. A result with contiguous columns is computed transposed, with the sides exchanged.

    >>> staging(Design(tile=(128, 64, 16), warps=(2, 2), stages=4, residents=2)).threads
    128
    """
    (m, n, k), (down, right) = design.tile, design.warps
    contiguous = (design.a_major == "k", design.b_major == "k")
    if design.out_major == "m":
        m, n, down, right, contiguous = n, m, right, down, contiguous[::-1]
    first, second = (
        Side(along, k, contiguous_k, bits=64, granule=4, together=4, copied=design.align)
        for along, contiguous_k in zip((m, n), contiguous, strict=True)
    )
    return Staging(first, second, (down, right), design.stages, design.residents)


def shape_of(instruction: str) -> tuple[int, int, int]:
    """The (m, n, k) of an instruction.

    >>> shape_of("16x8x4")
    (16, 8, 4)
    """
    m, n, k = map(int, instruction.split("x"))
    return m, n, k


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    if reason := shape_refusal(config):
        return reason
    instruction = str(config["instruction"])
    least = _INSTRUCTIONS[instruction]
    if (target.capability.major, target.capability.minor) < least:
        return f"instruction {instruction} is for sm_{least[0]}{least[1]}+, not {target}: use 8x8x4"
    return staging(Design.of(config)).refusal(shape_of(instruction), target)


GEMM_F64 = Product(op="gemm_f64", staging=staging, supports=supports, dtype="float64")


@GEMM_F64
def gemm_f64(
    a_major: Literal["k", "m"] = "k",
    b_major: Literal["n", "k"] = "n",
    out_major: Literal["n", "m"] = "n",
    batched: bool = False,
    align: Literal[16, 8] = 16,
    tile: Tuned[Sequence[int]] = (128, 64, 16),
    warps: Tuned[Sequence[int]] = (2, 2),
    stages: Tuned[int] = 4,
    residents: Tuned[int] = 2,
    instruction: Tuned[Literal["8x8x4", "16x8x4", "16x8x8", "16x8x16"]] = "8x8x4",
) -> Any:
    """``gemm_f64(a, b, out)``: the product of ``a`` (m, k) and ``b`` (k, n), stored in ``out`` (m, n), all float64.

    ``a_major``, ``b_major`` and ``out_major`` name the contiguous dimension of each. Addresses, and all other strides,
    are multiples of ``align`` bytes: 8 takes any matrix, 16 is faster. ``batched`` puts a dimension before the others
    of all three.

    ``tile`` is the (m, n, k) that a block multiplies at a time, with (m, n) ``warps``, out of ``stages`` stages;
    registers are shared out so that ``residents`` blocks fit on a multiprocessor. ``instruction`` is what a warp
    multiplies at a time; those of 16 rows are for sm_90 and later, and twice as fast on Hopper.
    """
    from precast.kernels.own.matrix.device.gemm_f64 import compile_gemm

    design = Design(
        tile=tile,
        stages=stages,
        residents=residents,
        warps=warps,
        align=align,
        a_major=a_major,
        b_major=b_major,
        out_major=out_major,
    )
    return compile_gemm(staging(design), shape_of(instruction), design, batched=batched)
