"""The roofline: the least time that a launch could take on this GPU, by what it moves and what it computes.

The least time is that of the bytes at the measured bandwidth, or of the operations at the measured rate, whichever is
longer. Up to as many bytes of the outputs as the L2 cache holds need not reach memory before the launch ends, so they
are not counted: a kernel whose inputs are cold and whose outputs are small writes to the cache alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.bench import Timing
from precast.kernels.authoring.timing.ceilings import Ceilings

ABOVE = "more than the GPU can do: the declared cost is too high, or the measurement was disturbed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a timing stands under the roofline: its least time in microseconds, and that as a share of what was measured.

    ``moved`` are the bytes that count. ``bound`` is what takes the least time: ``memory``, or ``products``.
    """

    least: float
    share: float
    moved: int
    bound: str
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """What a report says of it."""
        return {"least": round(self.least, 3), "share": round(self.share, 4), "bound": self.bound, "note": self.note}


def standing(timing: Timing, dtype: str | None, ceilings: Ceilings) -> Standing | None:
    """Where a timing stands; None where the kernel declares no cost, or nothing of it can be bounded.

    >>> ceilings = Ceilings(bandwidth=4000.0, rates={"bfloat16": 800.0}, l2=50_000_000)
    >>> copy = Timing(problem={"n": 1}, microseconds=110.0, spread=1.0, bytes=450_000_000, written=225_000_000)
    >>> standing(copy, "float32", ceilings)
    Standing(least=100.0, share=0.9090909090909091, moved=400000000, bound='memory', note='')
    """
    moved = max(0, timing.bytes - min(timing.written, ceilings.l2))
    rate = ceilings.rates.get(dtype or "", 0.0)
    memory = moved / ceilings.bandwidth / 1e3
    products = timing.flops / rate / 1e6 if rate else 0.0
    least = max(memory, products)
    if not least:
        return None
    bound = "memory" if memory >= products else "products"
    note = ABOVE if least > timing.microseconds + timing.spread else ""
    return Standing(least=least, share=least / timing.microseconds, moved=moved, bound=bound, note=note)
