"""``fused_add_rmsnorm``: the residual of a layer is added up, and its norm taken, in one kernel.

As FlashInfer's ``fused_add_rmsnorm``, but the norm may be stored elsewhere, and the kernel behind it is made ready as
soon as this one has begun: with few rows, that one can load its weights in the meantime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.rows import split_of
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_THREADS = (128, 256, 512, 1024)
_EPS = 1e-6


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "bfloat16", "hidden": 100, "threads": 128}, Target.parse("sm_90a"))
    'hidden is 100: use a multiple of 8, which are 16 bytes of bfloat16'
    """
    if reason := configs.not_among(config, "threads", _THREADS):
        return reason
    refused = configs.unsupported_dtype(config)
    if refused:
        return refused
    hidden, vector = configs.integer(config, "hidden"), 128 // bits(str(config["dtype"]))
    if hidden < vector or hidden % vector:
        return f"hidden is {hidden}: use a multiple of {vector}, which are 16 bytes of {config['dtype']}"
    if not split_of(config).held:
        return f"hidden is {hidden}, and threads {config['threads']}: a row stays in registers; use more threads"
    return None


def problems(config: Config) -> Sequence[Problem]:
    """No row, one row, about as many as a block takes, padded rows, and a large matrix last."""
    rows, pad = split_of(config).rows, split_of(config).vector
    large = max(64, (1 << 26) // configs.integer(config, "hidden"))
    cases = [(0, 0), (1, pad), (rows, 0), (rows + 1, pad), (5 * rows + 3, 3 * pad), (133, 0), (large, 0)]
    return [{"rows": rows, "padding": padding} for rows, padding in cases]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument by name. Padding is memory between the rows."""
    dtype, hidden, rows = str(config["dtype"]), configs.integer(config, "hidden"), problem["rows"]
    stride = hidden + problem.get("padding", 0)
    x, residual = (
        tensors.normal((rows, hidden), dtype, device=device, seed=seed + i, row_stride=stride) for i in range(2)
    )
    return {
        "x": x,
        "residual": residual,
        "weight": tensors.normal((hidden,), dtype, device=device, seed=seed + 2),
        "out": tensors.empty((rows, hidden), dtype, device=device, row_stride=stride),
        "eps": _EPS,
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The sum, and its norm before the sum is rounded, in float64."""
    x = inputs["x"].double() + inputs["residual"].double()
    scale = (x.square().mean(dim=-1, keepdim=True) + inputs["eps"]).rsqrt()
    return {"residual": x, "out": x * scale * inputs["weight"].double()}


def tolerance(config: Config) -> Tolerance:
    """Rounding to the stored dtype, after sums in float32 and an approximate root. Where the two terms of a sum nearly
    cancel, the error is in proportion to them."""
    stored = rounding.stored(str(config["dtype"]), 8e-6)
    return Tolerance(rtol=stored.rtol, atol=4e-6, ulps=stored.ulps)


def cost(config: Config, problem: Problem) -> Cost:
    """Five operations for each element; two matrices read and two written.

    >>> cost({"dtype": "bfloat16", "hidden": 4096}, {"rows": 1})
    Cost(flops=20480, bytes=40960)
    """
    hidden, rows, width = configs.integer(config, "hidden"), problem["rows"], bits(str(config["dtype"])) // 8
    return Cost(5 * rows * hidden, (4 * rows + 1) * hidden * width)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own sum and norm: two kernels if nobody compiles them."""
    from torch.nn.functional import rms_norm

    x, residual, weight, eps = inputs["x"], inputs["residual"], inputs["weight"], inputs["eps"]

    def both() -> Any:
        total = x + residual
        return total, rms_norm(total, weight.shape, weight, eps)

    return {"torch add, rms_norm": both}


@kernel(
    op="fused_add_rmsnorm",
    targets=["sm_90+"],
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["residual", "out"],
    in_place=["residual"],
    reference=reference,
    tolerance=tolerance,
    special_values=["nan", "zero"],
    cost=cost,
    peer=peer,
)
def fused_add_rmsnorm(dtype: DType, hidden: int, threads: Tuned[int] = 256) -> Any:
    """``fused_add_rmsnorm(x, residual, weight, out, eps)``: ``residual += x``, and ``out`` is the norm of the sum.

    ``x``, ``residual`` and ``out`` are ``[rows, hidden]``, of row strides that keep rows aligned to 16 bytes; ``out``
    may be ``x``. ``weight`` is ``[hidden]``. The norm is of the sum before it is rounded.
    """
    from precast.kernels.own.norms.device.fused_add_rmsnorm import compile_fused_add_rmsnorm

    return compile_fused_add_rmsnorm(to_cutlass(dtype), hidden, threads)
