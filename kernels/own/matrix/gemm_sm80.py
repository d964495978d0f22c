"""``gemm_sm80``: a product of bfloat16 or float16 matrices, with instructions that every GPU since Ampere has.

The compiled function is called as ``gemm_sm80(a, b, out)``: ``out`` (m, n) is ``a`` (m, k) times ``b`` (k, n), of any
size, summed in float32. Later GPUs have faster instructions of their own: see ``gemm``. This one runs on all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.matrix.products import Design, Product, shape_refusal
from precast.kernels.own.matrix.staging import Side, Staging
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_DTYPES = ("bfloat16", "float16")
_UNIT = (16, 16, 16)  # what a warp reads and multiplies at a time


def staging(design: Design) -> Staging:
    """The staging of a design.

    >>> staging(Design(tile=(128, 128, 32), warps=(2, 2), stages=4, residents=2, b_major="k")).bytes
    65536
    """
    (m, n, k), (down, right) = design.tile, design.warps
    first, second = (
        Side(along, k, contiguous_k=major == "k", bits=16, granule=8, together=8, copied=16)
        for along, major in ((m, design.a_major), (n, design.b_major))
    )
    return Staging(first, second, (down, right), design.stages, design.residents)


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = configs.not_among(config, "dtype", _DTYPES) or configs.not_among(
        config, "out_dtype", (config["dtype"], "float32")
    )
    if reason := reason or shape_refusal(config):
        return reason
    blocks = staging(Design.of(config))
    if reason := blocks.refusal(_UNIT, target):
        return reason
    if (blocks.first.along * blocks.second.along * bits(str(config["out_dtype"])) // 128) % blocks.threads:
        return f"{blocks.threads} threads cannot share the result's tile evenly: use a larger one, or fewer warps"
    return None


GEMM_SM80 = Product(op="gemm_sm80", staging=staging, supports=supports)


@GEMM_SM80
def gemm_sm80(
    dtype: DType,
    out_dtype: DType,
    a_major: Literal["k", "m"] = "k",
    b_major: Literal["k", "n"] = "k",
    tile: Tuned[Sequence[int]] = (128, 128, 32),
    warps: Tuned[Sequence[int]] = (2, 2),
    stages: Tuned[int] = 4,
    residents: Tuned[int] = 2,
) -> Any:
    """``gemm_sm80(a, b, out)``: the product of ``a`` (m, k) and ``b`` (k, n), of ``dtype``, stored in ``out`` (m, n).

    ``a_major`` and ``b_major`` name the contiguous dimension of each; rows of ``out`` are contiguous. The defaults are
    a linear layer's: ``gemm_sm80(x, weight.T, y)`` with ``weight`` as torch keeps it, (n, k). Addresses, and all other
    strides, are multiples of 16 bytes; sizes are free.

    ``tile`` is the (m, n, k) that a block multiplies at a time, with (m, n) ``warps``, out of ``stages`` stages;
    registers are shared out so that ``residents`` blocks fit on a multiprocessor.
    """
    from precast.kernels.own.matrix.device.gemm_sm80 import compile_gemm

    design = Design(tile=tile, stages=stages, residents=residents, warps=warps, a_major=a_major, b_major=b_major)
    return compile_gemm(staging(design), to_cutlass(dtype), to_cutlass(out_dtype), design.majors)
