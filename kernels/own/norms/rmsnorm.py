"""``rmsnorm``: divide every row by the root of its mean square, and multiply by a weight for each column.

The compiled function is called as ``rmsnorm(x, weight, out, eps)``: ``x`` and ``out`` of any number of rows, ``hidden``
columns, and any row strides that keep every row aligned to 16 bytes; ``out`` may be ``x`` itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.rows import WARP, split_of
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_THREADS = (32, 64, 128, 256, 512, 1024)
_EPS = 1e-6


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "bfloat16", "hidden": 1001, "threads": 128}, Target.parse("sm_90a"))
    'hidden is 1001, which 8 does not divide: rows of bfloat16 are read 16 bytes at a time; use 1000 or 1008'
    """
    if reason := configs.not_among(config, "threads", _THREADS):
        return reason
    refused = configs.unsupported_dtype(config)
    if refused:
        return refused
    dtype, hidden = str(config["dtype"]), configs.integer(config, "hidden")
    vector = 128 // bits(dtype)
    below = hidden // vector * vector
    if below <= 0:
        return f"hidden is {hidden}: use {vector} or a multiple of it"
    if hidden != below:
        return (
            f"hidden is {hidden}, which {vector} does not divide: rows of {dtype} are read 16 bytes at a time; "
            f"use {below} or {below + vector}"
        )
    return None


def problems(config: Config) -> Sequence[Problem]:
    """No row, one row, about as many as a block takes, padded rows, and a large matrix last.

    >>> problems({"dtype": "bfloat16", "hidden": 4096, "threads": 128})[0]
    {'rows': 0, 'x_padding': 0, 'out_padding': 0}
    """
    hidden, split = configs.integer(config, "hidden"), split_of(config)
    pad, large = split.vector, max(1, (1 << 27) // hidden)
    small = sorted({0, 1, 2, split.rows - 1, split.rows, split.rows + 1, 5 * split.rows + 3})
    paddings = [(0, 0), (pad, 0), (0, 3 * pad), (pad, pad)]
    cases = [(rows, *paddings[i % len(paddings)]) for i, rows in enumerate(small)]
    cases += [(133, *padding) for padding in paddings]
    cases.append((large, 0, 0))
    return [{"rows": rows, "x_padding": x, "out_padding": out} for rows, x, out in cases]


def large(config: Config) -> Problem:
    """More elements than 32 bits count, and a few rows.

    >>> large({"dtype": "bfloat16", "hidden": 4096, "threads": 128})["rows"] - 2**31 // 4096
    3
    """
    return {"rows": (1 << 31) // configs.integer(config, "hidden") + 3, "x_padding": 0, "out_padding": 0}


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``x``, ``weight``, ``out`` and ``eps`` of one problem. Padding is memory between the rows."""
    dtype, hidden, rows = str(config["dtype"]), configs.integer(config, "hidden"), problem["rows"]
    x_stride, out_stride = (hidden + problem.get(f"{name}_padding", 0) for name in ("x", "out"))
    return {
        "x": tensors.normal((rows, hidden), dtype, device=device, seed=seed, row_stride=x_stride),
        "weight": tensors.normal((hidden,), dtype, device=device, seed=seed + 1),
        "out": tensors.empty((rows, hidden), dtype, device=device, row_stride=out_stride),
        "eps": _EPS,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The norm in float64."""
    x = inputs["x"].double()
    scale = (x.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt()
    return {"out": x * scale * inputs["weight"].double()}


def tolerance(config: Config) -> Tolerance:
    """The error of the arithmetic in float32, and the rounding to the stored dtype.

    With ``u = 2**-24``, half a unit in the last place of float32, errors add up to first order:

    - The mean square: each square is rounded (``u``). All terms are positive, so a sum is off by at most ``u`` for each
      addition on the longest way through it: those of a lane, the shuffles of its warp, and one for each warp. The
      multiplication by ``1 / hidden``, that constant, and the addition of ``eps``: ``3 u``.
    - The root halves what it is given, and is itself off by two units: ``4 u``.
    - Two multiplications: ``2 u``.

    >>> tolerance({"dtype": "bfloat16", "hidden": 4096, "threads": 128}).rtol < 2.0**-7 / 1000
    True
    """
    dtype, split = str(config["dtype"]), split_of(config)
    additions = split.steps * split.vector + min(split.lanes, WARP).bit_length() + split.warps
    return rounding.stored(dtype, ((1 + additions + 3) / 2 + 4 + 2) * 2.0**-24)


def cost(config: Config, problem: Problem) -> Cost:
    """Four operations for each element; the matrix read once and written once, the weights read once.

    >>> cost({"dtype": "bfloat16", "hidden": 4096}, {"rows": 2})
    Cost(flops=32768, bytes=40960)
    """
    elements = problem["rows"] * configs.integer(config, "hidden")
    return Cost(4 * elements, (2 * elements + configs.integer(config, "hidden")) * bits(str(config["dtype"])) // 8)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own norm."""
    from torch.nn.functional import rms_norm

    x, weight, eps = inputs["x"], inputs["weight"], inputs["eps"]
    return {"torch rms_norm": lambda: rms_norm(x, weight.shape, weight, eps)}


@kernel(op="rmsnorm", targets=["sm_80+"], outputs=["out"])
def rmsnorm(dtype: DType, hidden: int, threads: Tuned[int] = 128) -> Any:
    """``rmsnorm(x, weight, out, eps)``: root-mean-square norm of each row, computed in float32.

    ``x`` and ``out`` are ``[rows, hidden]``, of row strides that keep rows aligned to 16 bytes; ``out`` may be ``x``.
    ``weight`` is ``[hidden]``.
    """
    from precast.kernels.own.norms.device.rmsnorm import compile_rmsnorm

    return compile_rmsnorm(to_cutlass(dtype), hidden, threads)
