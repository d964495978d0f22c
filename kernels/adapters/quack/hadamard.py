"""``quack.hadamard``: the Hadamard transform of rows, by which outliers are spread before a row is quantised."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.adapters.quack.library import QUACK, TARGETS
from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_WIDEST = 32_768


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    return QUACK.obstacle() or configs.unsupported_dtype(config) or width_refusal(config)


def width_refusal(config: Config) -> str | None:
    """Why rows are not of a width that the kernel knows, or None.

    >>> width_refusal({"width": 65536})
    'width is 65536: use a number from 2 to 32768'
    """
    width = configs.integer(config, "width")
    return None if 2 <= width <= _WIDEST else f"width is {width}: use a number from 2 to {_WIDEST}"


def problems(config: Config) -> Sequence[Problem]:
    """One row, a few with others between them, and at last as many as a prompt has."""
    return [{"rows": r, "padding": p} for r, p in [(1, 0), (3, 8), (17, 0), (1031, 24)]] + [
        {"rows": 16384, "padding": 0}
    ]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Rows, and the scale that keeps their length."""
    dtype, rows, width = str(config["dtype"]), problem["rows"], configs.integer(config, "width")
    stride = width + problem["padding"] if width % 8 == 0 else None
    processors = tensors.multiprocessors(device) if _persistent(dtype, width) else 0
    return {
        "x": tensors.normal((rows, width), dtype, device=device, seed=seed, row_stride=stride),
        "out": tensors.empty((rows, width), dtype, device=device, row_stride=stride),
        "scale": width**-0.5,
        "processors": processors,
    }


def transformed(x: Any) -> Any:
    """The transform of rows, which zeros fill up to a power of two; in the order of Sylvester's matrices.

    >>> import torch
    >>> transformed(torch.tensor([[1.0, 2.0, 3.0, 4.0]])).tolist()
    [[10.0, -2.0, -4.0, 0.0]]
    """
    import torch

    rows, width = x.shape
    whole = 1 << (width - 1).bit_length()
    values = torch.nn.functional.pad(x, (0, whole - width))
    half = 1
    while half < whole:
        pairs = values.view(rows, -1, 2, half)
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        values = torch.stack((first + second, first - second), dim=2).view(rows, whole)
        half *= 2
    return values[:, :width]


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The transform in float64."""
    return {"out": transformed(inputs["x"].double()) * inputs["scale"]}


def tolerance(config: Config) -> Tolerance:
    """As many additions in float32 as the width has binary digits; the terms of a sum are about as many as columns."""
    width = configs.integer(config, "width")
    stored = rounding.stored(str(config["dtype"]), 1e-6)
    return Tolerance(rtol=stored.rtol, atol=width.bit_length() * 2.0**-24 * width**0.5, ulps=stored.ulps)


def cost(config: Config, problem: Problem) -> Cost:
    """Read once, written once; an addition for each element and binary digit of the width."""
    width = configs.integer(config, "width")
    elements = problem["rows"] * width
    return Cost(elements * (width - 1).bit_length(), 2 * elements * bits(str(config["dtype"])) // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """The product with the matrix, which is the fastest that torch has where the matrix is small."""
    import torch

    width, x = configs.integer(config, "width"), inputs["x"]
    if width > 4096:
        return {}
    matrix = transformed(torch.eye(width, dtype=torch.float32, device=x.device)) * inputs["scale"]
    held = matrix.to(x.dtype)
    return {"torch.mm": lambda: x @ held}


def _persistent(dtype: str, width: int) -> bool:
    """Whether blocks take rows in turn: the library's choice, where one block is all that a multiprocessor holds."""
    return width == _WIDEST and dtype != "float32"


@kernel(
    op="quack.hadamard",
    imports=["quack.transform.hadamard"],
    targets=TARGETS,
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    reference=reference,
    tolerance=tolerance,
    cost=cost,
    peer=peer,
    arguments={"mX": "x", "mO": "out", "num_sms": "processors"},
)
def hadamard(dtype: DType, width: int) -> Any:
    """The Hadamard transform of each row, times ``scale``: ``(x, out, scale, processors)``, both ``[rows, width]``.

    A row that is no power of two wide counts as filled up with zeros. Rows are aligned to as many elements as divide
    ``width`` and 16 bytes. ``processors`` is the number of multiprocessors of the GPU for rows of 32768 in 16 bits, and
    0 for others. At least one row.
    """
    return QUACK.call(
        "quack.transform.hadamard:HadamardTransform.compile",
        dtype=to_cutlass(dtype),
        N=width,
        persistent=_persistent(dtype, width),
    )
