"""The share of a normal distribution below a number, as a sigmoid of a polynomial: for device code and tests alike.

``gelu(x)`` is ``x`` times that share, ``s(x)``. The error function takes some twenty instructions. The exponent of a
sigmoid takes eight: ``s(x) = 1 / (1 + 2**-z(x))`` with ``z(x) = log2(s(x) / s(-x))``, which is odd and smooth, so that
``x`` times a polynomial of ``x * x`` comes near to it.

``ODDS`` is that of degree 6 whose error in ``x * s(x)`` is least at its worst, as a share of what float16 allows: a
quarter of a unit in the last place, and ``6 * 2**-22`` beside it, which is what float32 leaves of ``1 + erf`` where the
two cancel. It takes 0.03 of that, and less of what bfloat16 allows. Its leading coefficient is positive: far from zero
the result is ``x``, or zero. float32 has no such room, so there ``gelu`` takes the error function.
"""

from __future__ import annotations

from typing import Any

ODDS = (2.3021822, 0.104884945, -1.2127015e-4, -1.533564e-4, 1.0783346e-5, -3.5076638e-7, 4.5627386e-9)


def log2_odds(x: Any) -> Any:
    """``log2(s(x) / s(-x))`` of a number, or of a vector of them.

    >>> abs(1 / (1 + 2 ** -log2_odds(-1.0)) - 0.15865525) < 1e-6
    True
    """
    square = x * x
    result = ODDS[-1]
    for coefficient in reversed(ODDS[:-1]):
        result = result * square + coefficient
    return x * result
