"""``quack.topk``: the largest values of rows and their columns, as a mixture of experts routes its tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.adapters.quack import library
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_WIDEST, _MOST = 4096, 128


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> from precast.kernels.adapters.quack.topk import limits
    >>> limits(384, 8, 8)
    'width is 384: use a power of two from 8 to 4096'
    """
    reason = library.refusal(config, "width")
    least = library.vector(str(config["dtype"])) if reason is None else 1
    return reason or limits(configs.integer(config, "width"), configs.integer(config, "k"), least)


def limits(width: int, k: int, least: int) -> str | None:
    """Why the kernel is not for so many columns and results, or None."""
    if not _power(width) or not least <= width <= _WIDEST:
        return f"width is {width}: use a power of two from {least} to {_WIDEST}"
    if not _power(k) or k > min(_MOST, width):
        return f"k is {k}: use a power of two up to {min(_MOST, width)}"
    return None


def _power(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def problems(config: Config) -> Sequence[Problem]:
    """The shapes to verify and bench with."""
    step = library.vector(str(config["dtype"]))
    return [{"rows": r, "padding": p} for r, p in [(1, 0), (2, step), (17, 0), (129, step), (1031, 3 * step)]] + [
        {"rows": 65536, "padding": 0}
    ]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, ``values`` and ``indices``. The values of ``x`` have short fractions, and so many are equal."""
    dtype, rows, k = str(config["dtype"]), problem["rows"], configs.integer(config, "k")
    width = configs.integer(config, "width")
    x = tensors.normal((rows, width), dtype, device=device, seed=seed, row_stride=width + problem["padding"])
    apart = max(k, library.vector(dtype))
    return {
        "x": x.copy_(x.bfloat16()),
        "values": tensors.empty((rows, k), dtype, device=device, row_stride=apart),
        "indices": tensors.empty((rows, k), "int32", device=device, row_stride=apart),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A stable sort: of equal values the leftmost comes first."""
    k = configs.integer(config, "k")
    values, indices = inputs["x"].double().sort(dim=-1, descending=True, stable=True)
    values = values[:, :k]
    return {"values": values.softmax(dim=-1) if config["softmax"] else values, "indices": indices[:, :k]}


def tolerance(config: Config) -> Tolerance:
    """Values are copied, or exponents of numbers below 10 in float32."""
    if config["softmax"]:
        stored = rounding.tolerance(str(config["dtype"]), 1e-5)
        return Tolerance(rtol=stored.rtol, atol=max(stored.atol, 1e-7))
    return Tolerance(rtol=0.0, atol=1e-30)


def cost(config: Config, problem: Problem) -> Cost:
    """The matrix read once, the results written once."""
    k, width = configs.integer(config, "k"), configs.integer(config, "width")
    memory = problem["rows"] * (width * bits(str(config["dtype"])) + k * (bits(str(config["dtype"])) + 32))
    return Cost(problem["rows"] * width, memory // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own, where no softmax follows."""
    x, k = inputs["x"], configs.integer(config, "k")
    return {} if config["softmax"] else {"torch.topk": lambda: x.topk(k, dim=-1)}


@kernel(
    op="quack.topk",
    imports=["quack.topk"],
    targets=library.TARGETS,
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["values", "indices"],
    reference=reference,
    tolerance=tolerance,
    special_values=["zero"],  # it sorts bits, of which it takes some for columns
    cost=cost,
    peer=peer,
    arguments={"mX": "x", "mValues": "values", "mIndices": "indices"},
)
def topk(dtype: DType, width: int, k: int, softmax: bool = False) -> Any:
    """The ``k`` largest of each row, in falling order: ``(x, values, indices)``, the last of int32.

    ``x`` is ``[rows, width]``, ``values`` and ``indices`` are ``[rows, k]``; 8 divides the row strides of all, for
    float32 4, so that the rows of results are further apart than ``k`` where ``k`` is less. With ``softmax``,
    ``values`` is the softmax over them. The kernel sorts in float32 with the column in the lowest bits of each number:
    of equal values the leftmost comes first, and a float32 loses as many bits as a column needs (11 fraction bits are
    left of 23 at 4096 columns); bfloat16 and float16 lose none. At least one row.
    """
    return QUACK.call("quack.topk:TopK.compile", dtype=to_cutlass(dtype), N=width, k=k, softmax=softmax)
