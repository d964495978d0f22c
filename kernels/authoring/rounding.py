"""Rounding: what storing a result as a dtype costs in accuracy."""

from __future__ import annotations

from precast.kernels.authoring.declare import Tolerance

# Half a unit in the last place of the stored result, as a share of it; and the smallest value above zero.
_ROUNDING = {"float32": 0.0, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_SMALLEST = {"float32": 2.0**-126, "float16": 2.0**-24, "bfloat16": 2.0**-126}


def tolerance(dtype: str, arithmetic: float) -> Tolerance:
    """How far a result stored as ``dtype`` may be off, after arithmetic with the given relative error.

    >>> tolerance("bfloat16", 0.0).rtol
    0.00390625
    """
    return Tolerance(rtol=_ROUNDING[dtype] + arithmetic, atol=_SMALLEST[dtype])
