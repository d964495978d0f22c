"""``apply``: a function of every element of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.authoring import rounding
from precast.kernels.authoring.declare import Tolerance
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.elementwise import forms
from precast.kernels.own.elementwise.forms import Elementwise
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_FUNCTIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "square")
_FLOPS = {"relu": 1, "gelu": 5, "gelu_tanh": 9, "silu": 4, "sigmoid": 4, "square": 1}


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> supports({"dtype": "float32", "function": "sin", "rank": 1}, Target.parse("sm_90a"))
    'function is sin: use one of relu, gelu, gelu_tanh, silu, sigmoid, square'
    """
    return configs.not_among(config, "function", _FUNCTIONS) or forms.supports(config, target)


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The function in float64."""
    return {"out": _torch(config)(inputs["x"].double())}


def tolerance(config: Config) -> Tolerance:
    """The rounding, and arithmetic in float32 with an approximate exponential. Half of gelu is a sum that may cancel,
    to as little as a float32's last digits; values are below 6 in size."""
    stored = rounding.stored(str(config["dtype"]), 6e-6)
    cancelled = 6 * 2.0**-22 if config["function"] == "gelu" else 0.0
    return Tolerance(rtol=stored.rtol, atol=stored.atol + cancelled, ulps=stored.ulps)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own."""
    x, function = inputs["x"], _torch(config)
    return {f"torch {config['function']}": lambda: function(x)}


def _torch(config: Config) -> Callable[[Any], Any]:
    import torch
    from torch.nn import functional

    functions: dict[str, Callable[[Any], Any]] = {
        "relu": functional.relu,
        "gelu": functional.gelu,
        "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "silu": functional.silu,
        "sigmoid": torch.sigmoid,
        "square": torch.square,
    }
    return functions[str(config["function"])]


APPLY = Elementwise(
    op="apply",
    tensors=("x",),
    flops=lambda config: _FLOPS[str(config["function"])],
    supports=supports,
    special_values=["nan", "zero", "denormal"],  # at minus infinity formulas differ
)


@APPLY
def apply(
    dtype: DType,
    function: Literal["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "square"],
    rank: Literal[1, 2] = 1,
    threads: Tuned[int] = 256,
    unroll: Tuned[int] = 1,
) -> Any:
    """``apply(x, out)``: ``out = function(x)``, computed in float32.

    With ``rank`` 1, ``x`` and ``out`` are contiguous and one-dimensional, of any length: pass ``x.view(-1)``. With
    ``rank`` 2 they are matrices, whose row strides are their own and keep rows aligned to 16 bytes. ``out`` may be
    ``x``.
    """
    from precast.kernels.own.elementwise.device.apply import compile_apply

    return compile_apply(to_cutlass(dtype), function, rank, threads, unroll)
