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


def stored(dtype: str, arithmetic: float) -> Tolerance:
    """How far a result may be off that is computed in float32, with the given relative error, and stored as ``dtype``.

    Storing it rounds it to the nearest number: half a unit in the last place. A quarter more keeps a right result well
    within what is allowed, and one that is a unit beside the nearest number is out of it, unless the exact value lies
    in the quarter of the interval between the two that is nearer to it. A result in float32 is not rounded again.

    >>> stored("bfloat16", 1e-6).ulps, stored("float32", 1e-6).ulps
    (0.75, 0.0)
    """
    return Tolerance(rtol=arithmetic, atol=_SMALLEST[dtype], ulps=0.0 if dtype == "float32" else 0.75)
