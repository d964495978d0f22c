"""Functions of a number, for vectors of them in float32."""

# The DSL's stubs know neither what its names resolve to while a kernel is traced, nor all that it exports.
# mypy: disable-error-code="attr-defined,union-attr,index,arg-type,no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cutlass.cute as cute


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return 1.0 / (1.0 + cute.math.exp(-x, fastmath=True))


def silu(x: Any) -> Any:
    """``x * sigmoid(x)``."""
    return x / (1.0 + cute.math.exp(-x, fastmath=True))


def gelu(x: Any) -> Any:
    """``x`` times the share of a normal distribution below it."""
    return 0.5 * x * (1.0 + cute.math.erf(x * math.sqrt(0.5)))


def gelu_tanh(x: Any) -> Any:
    """The usual approximation of ``gelu``. Its tangent is a sigmoid of twice the angle:
    ``0.5 * (1 + tanh(z)) = 1 / (1 + exp(-2 z))``."""
    angle = x * (1.0 + 0.044715 * x * x) * math.sqrt(8 / math.pi)
    return x / (1.0 + cute.math.exp(-angle, fastmath=True))


def relu(x: Any) -> Any:
    """``x``, or zero where it is below; NaN stays NaN."""
    return cute.where(x < 0.0, cute.full_like(x, 0.0), x)


def square(x: Any) -> Any:
    """``x * x``."""
    return x * x


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    function.__name__: function for function in (sigmoid, silu, gelu, gelu_tanh, relu, square)
}
