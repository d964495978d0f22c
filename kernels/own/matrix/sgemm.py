"""``sgemm``: a product of float32 matrices, in float32.

The compiled function is called as ``sgemm(a, b, out)``: ``out`` (m, n) is ``a`` (m, k) times ``b`` (k, n), of any size,
with contiguous rows. Tensor cores have no float32: they would shorten the numbers. So this is the product with the
ordinary multiply-add instruction, at a tenth of the speed of 16-bit numbers, and with all digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from precast.kernels.authoring import configs
from precast.kernels.authoring.declare import kernel
from precast.kernels.authoring.hints import Tuned
from precast.kernels.own.matrix import products
from precast.kernels.own.matrix.staging import Side, Staging, Threads
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_THREADS = Threads(rows=8, columns=8)
_UNIT = (4 * _THREADS.rows, 8 * _THREADS.columns, 4)  # what a warp multiplies: four by eight threads, vectors of four


def staging_of(config: Config) -> Staging:
    """The staging of a full config: as many warps as the tile needs.

    >>> staging_of({"tile": (128, 128, 16), "stages": 4, "residents": 2, "align": 16}).threads
    256
    """
    m, n, k = configs.integers(config, "tile")
    copied = configs.integer(config, "align")
    first = Side(m, k, contiguous_k=True, bits=32, granule=4, together=4, copied=copied)
    second = Side(n, k, contiguous_k=False, bits=32, granule=4, together=1, copied=copied)
    return Staging(
        first,
        second,
        (m // _UNIT[0], n // _UNIT[1]),
        configs.integer(config, "stages"),
        configs.integer(config, "residents"),
    )


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> one = {"tile": (100, 128, 16), "stages": 4, "residents": 2, "align": 16}
    >>> supports(one, Target.parse("sm_90a"))
    'the m of the tile is 100: use a multiple of 96'
    """
    return products.shape_refusal(config, keys=("tile",)) or staging_of(config).refusal(_UNIT, target)


_PRODUCT = products.Product(staging_of, "float32")


@kernel(
    op="sgemm",
    targets=["sm_80+"],
    supports=supports,
    problems=_PRODUCT.problems,
    large=products.large,
    inputs=_PRODUCT.inputs,
    outputs=["out"],
    reference=products.reference,
    tolerance=_PRODUCT.tolerance,
    cost=_PRODUCT.cost,
    tile=_PRODUCT.tile,
    peer=products.peer,
)
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

    return compile_gemm(staging_of(locals()), _THREADS, align)
