"""``quack.softmax`` and ``quack.softmax_bwd``: the softmax of rows, and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from precast.kernels.adapters.quack import library
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs, rounding
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType
from precast.kernels.authoring.row_kernel import RowKernel, Tensor, row_problems
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_MATRIX = ("rows", "width")


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = configs.unsupported_dtype(config)
    return reason or library.refusal(config, "width", divisor=library.vector(str(config["dtype"])))


def forward_supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built forward, or None."""
    vector = library.vector(str(config["dtype"]))
    refused = supports(config, target) or library.cluster_refusal(config, "width", vector, target)
    return refused or library.shared_memory_refusal(config, "width", vector, target)


def backward_supports(config: Config, target: Target) -> str | None:
    """Why a config of the gradient cannot be built, or None."""
    vector = library.vector(str(config["dtype"]))
    return supports(config, target) or library.shared_memory_refusal(config, "width", vector, target, tensors=2)


def problems(config: Config) -> Sequence[Problem]:
    """The shapes to verify and bench with."""
    return row_problems(configs.integer(config, "width"), pad=library.vector(str(config["dtype"])))


def forward_prepare(config: Config, inputs: dict[str, Any], seed: int) -> None:
    """Values spread wide enough for rows with a peak."""
    inputs["x"].mul_(3.0)


def forward_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The softmax in float64."""
    return {"out": inputs["x"].double().softmax(dim=-1)}


def forward_peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own softmax."""
    x = inputs["x"]
    return {"torch softmax": lambda: x.softmax(dim=-1)}


def backward_prepare(config: Config, inputs: dict[str, Any], seed: int) -> None:
    """``out`` is a softmax."""
    inputs["out"].copy_(inputs["out"].double().mul(3.0).softmax(dim=-1))


def backward_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The gradient in float64."""
    out, dout = inputs["out"].double(), inputs["dout"].double()
    return {"dx": out * (dout - (out * dout).sum(dim=-1, keepdim=True))}


def backward_peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """What torch calls for the gradient of its softmax."""
    import torch

    out, dout = inputs["out"], inputs["dout"]
    return {"torch softmax's gradient": lambda: torch._softmax_backward_data(dout, out, -1, out.dtype)}


def tolerance(config: Config) -> Tolerance:
    """Exponentials of numbers up to 30 in float32, which multiply the error, then the rounding of the result."""
    stored = rounding.tolerance(str(config["dtype"]), 2e-5)
    return Tolerance(rtol=stored.rtol, atol=max(stored.atol, 1e-7))


def backward_tolerance(config: Config) -> Tolerance:
    """A difference of a value and a sum of both signs: the error is in proportion to the terms."""
    return Tolerance(rtol=tolerance(config).rtol, atol=4e-6)


SOFTMAX = RowKernel(
    op="quack.softmax",
    imports=("quack.softmax",),
    targets=library.TARGETS,
    supports=forward_supports,
    arguments=(Tensor("x", _MATRIX), Tensor("out", _MATRIX, role="out")),
    names={"mX": "x", "mO": "out"},
    problems=problems,
    prepare=forward_prepare,
    reference=forward_reference,
    tolerance=tolerance,
    special_values=("zero", "denormal"),  # a maximum drops NaN
    peer=forward_peer,
    flops=5,
)


@SOFTMAX
def softmax(dtype: DType, width: int) -> Any:
    """Softmax of rows: ``(x, out)``, both ``[rows, width]``, each with row strides that keep rows aligned to 16 bytes.

    At least one row.
    """
    value = to_cutlass(dtype)
    return QUACK.call("quack.softmax:Softmax.compile", dtype=value, out_dtype=value, N=width)


SOFTMAX_BWD = replace(
    SOFTMAX,
    op="quack.softmax_bwd",
    supports=backward_supports,
    arguments=(Tensor("dout", _MATRIX), Tensor("out", _MATRIX), Tensor("dx", _MATRIX, role="out")),
    names={"mdY": "dout", "mY": "out", "mdX": "dx"},
    prepare=backward_prepare,
    reference=backward_reference,
    tolerance=backward_tolerance,
    peer=backward_peer,
    flops=4,
)


@SOFTMAX_BWD
def softmax_bwd(dtype: DType, width: int) -> Any:
    """Gradient of ``quack.softmax``: ``(dout, out, dx)``, all ``[rows, width]``; ``out`` is what the forward wrote.

    Each has row strides of its own that keep rows aligned to 16 bytes. At least one row.
    """
    value = to_cutlass(dtype)
    return QUACK.call("quack.softmax:SoftmaxBackward.compile", dtype=value, y_dtype=value, dx_dtype=value, N=width)
