"""``sgemm``: a product of float32 matrices, in float32.

The compiled function is called as ``sgemm(a, b, out)``: ``out`` (m, n) is ``a`` (m, k) times ``b`` (k, n), of any size,
with contiguous rows. Tensor cores have no float32: they would shorten the numbers. So this is the product with the
ordinary multiply-add instruction, at a tenth of the speed of 16-bit numbers, and with all digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from precast.kernels.authoring.hints import Tuned
from precast.kernels.own.matrix.products import Design, Product, shape_refusal
from precast.kernels.own.matrix.staging import Side, Staging, Threads
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_THREADS = Threads(rows=8, columns=8)
_UNIT = (4 * _THREADS.rows, 8 * _THREADS.columns, 4)  # what a warp multiplies: four by eight threads, vectors of four


def staging(design: Design) -> Staging:
    """The staging of a design: as many warps as the tile needs.

    >>> staging(Design(tile=(128, 128, 16), stages=4, residents=2)).threads
    256
    """
    m, n, k = design.tile
    first = Side(m, k, contiguous_k=True, bits=32, granule=4, together=4, copied=design.align)
    second = Side(n, k, contiguous_k=False, bits=32, granule=4, together=1, copied=design.align)
    return Staging(first, second, (m // _UNIT[0], n // _UNIT[1]), design.stages, design.residents)


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"tile": (100, 128, 16), "stages": 4, "residents": 2, "align": 16}
    >>> supports(config, Target.parse("sm_90a"))
    'the m of the tile is 100: use a multiple of 96'
    """
    return shape_refusal(config, keys=("tile",)) or staging(Design.of(config)).refusal(_UNIT, target)


SGEMM = Product(op="sgemm", staging=staging, supports=supports, dtype="float32")


@SGEMM
def sgemm(
    align: Literal[16, 4] = 16,
    tile: Tuned[Sequence[int]] = (128, 128, 32),
    stages: Tuned[int] = 3,
    residents: Tuned[int] = 1,
) -> Any:
    """``sgemm(a, b, out)``: the product of ``a`` (m, k) and ``b`` (k, n), stored in ``out`` (m, n), all float32.

    Rows are contiguous. Addresses, and the distances between rows, are multiples of ``align`` bytes: 4 takes any
    matrix, 16 is faster. ``tile`` is the (m, n, k) that a block multiplies at a time, out of ``stages`` stages;
    registers are shared out so that ``residents`` blocks fit on a multiprocessor.
    """
    from precast.kernels.own.matrix.device.sgemm import compile_gemm

    design = Design(tile=tile, stages=stages, residents=residents, align=align)
    return compile_gemm(staging(design), _THREADS, align)
