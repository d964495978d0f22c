"""Functions of a number, for vectors of them in float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute

from precast.kernels.own.gelu import log2_odds

_LOG2_E = math.log2(math.e)


@cute.jit
def reciprocal(x: Any) -> Any:
    """``1 / x`` to one unit in the last place, and zero beyond ``2**126``: far faster than a rounded division."""
    result = cute.make_rmem_tensor_like(x)
    result.store(x)
    for i in cutlass.range_constexpr(cute.size(result)):
        result[i] = cute.arch.rcp_approx(result[i])
    return result.load()


def logistic(x: Any) -> Any:
    """``1 / (1 + 2**-x)``."""
    return reciprocal(1.0 + cute.math.exp2(-x, fastmath=True))


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return logistic(x * _LOG2_E)


def silu(x: Any) -> Any:
    """``x * sigmoid(x)``."""
    return x * sigmoid(x)


def gelu(x: Any) -> Any:
    """``x`` times the share of a normal distribution below it."""
    return 0.5 * x * (1.0 + cute.math.erf(x * math.sqrt(0.5)))


def gelu_short(x: Any) -> Any:
    """``gelu`` for results of 16 bits."""
    return x * logistic(log2_odds(x))


def gelu_tanh(x: Any) -> Any:
    """The usual approximation of ``gelu``. Its tangent is a sigmoid of twice the angle:
    ``0.5 * (1 + tanh(z)) = 1 / (1 + exp(-2 z))``."""
    factor = math.sqrt(8 / math.pi) * _LOG2_E
    return x * logistic(x * (factor + 0.044715 * factor * (x * x)))


def relu(x: Any) -> Any:
    """``x``, or zero where it is below; NaN stays NaN."""
    return cute.where(x < 0.0, cute.full_like(x, 0.0), x)


def square(x: Any) -> Any:
    """``x * x``."""
    return x * x


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    function.__name__: function for function in (sigmoid, silu, gelu, gelu_tanh, relu, square)
}


def function_of(name: str, dtype: Any) -> Callable[[Any], Any]:
    """The function of a name, for results that are stored as a dtype."""
    return gelu_short if name == "gelu" and dtype.width == 16 else _FUNCTIONS[name]
