"""``quack.softmax`` and ``quack.softmax_bwd``: the softmax of rows, and its gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels.adapters.quack import library
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs, rounding
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType
from precast.loader.format.config import Config
from precast.loader.format.target import Target


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = configs.unsupported_dtype(config)
    return reason or library.refusal(config, "width", divisor=library.vector(str(config["dtype"])))


def forward_supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built forward, or None."""
    return supports(config, target) or library.unshared(config, "width", library.vector(str(config["dtype"])))


def problems(config: Config) -> Sequence[Problem]:
    """The shapes to verify and bench with."""
    return library.row_problems(configs.integer(config, "width"), library.vector(str(config["dtype"])))


def _matrix(config: Config, problem: Problem, device: Any, seed: int | None) -> Any:
    return library.matrix(config, problem, "width", dtype=str(config["dtype"]), device=device, seed=seed)


def forward_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, spread wide enough for peaked rows, and ``out``."""
    x = _matrix(config, problem, device, seed)
    return {"x": x.mul_(3.0), "out": _matrix(config, problem, device, None)}


def forward_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The softmax in float64."""
    return {"out": inputs["x"].double().softmax(dim=-1)}


def backward_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``dout``, a softmax ``out``, and ``dx``."""
    out = _matrix(config, problem, device, seed)
    out.copy_(out.double().mul(3.0).softmax(dim=-1))
    return {
        "dout": _matrix(config, problem, device, seed + 1),
        "out": out,
        "dx": _matrix(config, problem, device, None),
    }


def backward_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The gradient in float64."""
    out, dout = inputs["out"].double(), inputs["dout"].double()
    return {"dx": out * (dout - (out * dout).sum(dim=-1, keepdim=True))}


def tolerance(config: Config) -> Tolerance:
    """Exponents of numbers up to 30 in float32, whose error they multiply, then the rounding to the stored dtype."""
    stored = rounding.tolerance(str(config["dtype"]), 2e-5)
    return Tolerance(rtol=stored.rtol, atol=max(stored.atol, 1e-7))


def backward_tolerance(config: Config) -> Tolerance:
    """A difference of a value and a sum of both signs leaves an error in proportion to its parts."""
    return Tolerance(rtol=tolerance(config).rtol, atol=4e-6)


def forward_cost(config: Config, problem: Problem) -> Cost:
    """Read once, written once."""
    elements = problem["rows"] * configs.integer(config, "width")
    return Cost(5 * elements, 2 * elements * bits(str(config["dtype"])) // 8)


def backward_cost(config: Config, problem: Problem) -> Cost:
    """Two matrices read, one written."""
    elements = problem["rows"] * configs.integer(config, "width")
    return Cost(4 * elements, 3 * elements * bits(str(config["dtype"])) // 8)


@kernel(
    op="quack.softmax",
    targets=library.TARGETS,
    supports=forward_supports,
    problems=problems,
    inputs=forward_inputs,
    outputs=["out"],
    reference=forward_reference,
    tolerance=tolerance,
    cost=forward_cost,
    arguments={"mX": "x", "mO": "out"},
)
def softmax(dtype: DType, width: int) -> Any:
    """Softmax of rows: ``(x, out)``, both ``[rows, width]``, each with row strides that keep rows aligned to 16 bytes.

    At least one row.
    """
    value = to_cutlass(dtype)
    return QUACK.call("quack.softmax:Softmax.compile", dtype=value, out_dtype=value, N=width)


@kernel(
    op="quack.softmax_bwd",
    targets=library.TARGETS,
    supports=supports,
    problems=problems,
    inputs=backward_inputs,
    outputs=["dx"],
    reference=backward_reference,
    tolerance=backward_tolerance,
    cost=backward_cost,
    arguments={"mdY": "dout", "mY": "out", "mdX": "dx"},
)
def softmax_bwd(dtype: DType, width: int) -> Any:
    """Gradient of ``quack.softmax``: ``(dout, out, dx)``, all ``[rows, width]``; ``out`` is what the forward wrote.

    Each has row strides of its own that keep rows aligned to 16 bytes. At least one row.
    """
    value = to_cutlass(dtype)
    return QUACK.call("quack.softmax:SoftmaxBackward.compile", dtype=value, y_dtype=value, dx_dtype=value, N=width)
