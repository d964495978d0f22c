"""``softmax``: exponentials of a row, divided by their sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import rounding
from precast.kernels.authoring.declare import Tolerance
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own import row_cases
from precast.kernels.own.rows import WARP
from precast.kernels.row_kernel import RowKernel, Tensor
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_MATRIX = ("rows", "width")
_SPREAD = 3.0


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = row_cases.refusal(config, "width") or row_cases.cluster_refusal(config, "width", target)
    return reason or row_cases.stage_refusal(config, "width")


def prepare(config: Config, inputs: dict[str, Any], seed: int) -> None:
    """Values spread wide enough for rows with a peak."""
    inputs["x"].mul_(_SPREAD)


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The softmax in float64."""
    return {"out": inputs["x"].double().softmax(dim=-1)}


def tolerance(config: Config) -> Tolerance:
    """The error of the arithmetic in float32, and the rounding to the stored dtype.

    With ``u = 2**-24``, half a unit in the last place of float32, errors add up to first order:

    - An exponent is off by ``1.5 u`` of itself, and exponents reach 40 (values are within 6 standard deviations of 3):
      ``60 u`` for the exponential, which is itself off by ``4 u``. So is each in the sum.
    - The sum: ``u`` for each addition, and for each block of a cluster. It is scaled by another exponential each time
      that a larger value is met: once for a group of vectors at most, where the lanes of a warp put theirs together,
      where a lane takes the result of another warp, and where these are combined: ``8 u`` each.
    - A division and a multiplication: ``2 u``.
    """
    split, cluster = row_cases.split_of(config, "width"), configs.integer(config, "cluster")
    scalings = -(-split.steps // 2) + 2 + split.warps * cluster // WARP
    arithmetic = 2 * 64 + row_cases.additions(split) + cluster + 8 * scalings + 2
    return rounding.stored(str(config["dtype"]), arithmetic * 2.0**-24)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own softmax."""
    x = inputs["x"]
    return {"torch softmax": lambda: x.softmax(dim=-1)}


SOFTMAX = RowKernel(
    op="softmax",
    targets=("sm_80+",),
    arguments=(Tensor("x", _MATRIX), Tensor("out", _MATRIX, role="out")),
    problems=partial(row_cases.problems, key="width"),
    large=partial(row_cases.large, key="width"),
    prepare=prepare,
    flops=5,
)


@SOFTMAX
def softmax(
    dtype: DType, width: int, cluster: Tuned[int] = 1, staged: Tuned[bool] = False, threads: Tuned[int] = 256
) -> Any:
    """``softmax(x, out)``: each row of ``out`` is the softmax of that row of ``x``, computed in float32.

    ``x`` and ``out`` are ``[rows, width]``, of row strides that keep rows aligned to 16 bytes; ``out`` may be ``x``.
    A row that the registers of a block hold, or those of a ``cluster`` of blocks, is read once. With ``staged`` it
    waits in shared memory instead. Any other is read twice.
    """
    from precast.kernels.own.reductions.device.softmax import compile_softmax

    return compile_softmax(to_cutlass(dtype), width, cluster, threads, staged)
