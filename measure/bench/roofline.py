"""The roofline: the least time that a launch could take on this GPU, from its bytes and its operations.

The least time is that of the bytes at the measured bandwidth, or of the operations at the measured rate, whichever is
longer. Up to as many bytes of the outputs as the L2 cache holds need not reach memory before the launch ends, so they
are not counted: a kernel whose inputs are cold and whose outputs are small writes to the cache alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings

ABOVE = "more than the GPU's peak: the declared cost is too high, or the measurement was disturbed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The position of a timing under the roofline: the least times, in microseconds, of its bytes and its operations.

    ``moved`` are the counted bytes. ``note`` is set if the measured time is less than possible.
    """

    memory: float
    products: float
    microseconds: float
    moved: int
    note: str = ""

    @property
    def least(self) -> float:
        """The least possible time."""
        return max(self.memory, self.products)

    @property
    def share(self) -> float:
        """The least possible time as a share of the measured one."""
        return self.least / self.microseconds

    @property
    def bound(self) -> str:
        """The resource that determines the least possible time."""
        return "memory" if self.memory >= self.products else "products"

    def to_json(self) -> dict[str, Any]:
        """The fields of a report: the shares of the bandwidth and of the rate, and the larger one."""
        return {
            "of_bandwidth": round(self.memory / self.microseconds, 4),
            "of_rate": round(self.products / self.microseconds, 4),
            "share": round(self.share, 4),
            "bound": self.bound,
            "least": round(self.least, 3),
            "note": self.note,
        }


def standing(timing: Timing, dtype: str | None, ceilings: Ceilings) -> Standing | None:
    """The position of a timing; None if the kernel declares no cost, or none of its parts has a bound.

    >>> ceilings = Ceilings(bandwidth=4000.0, rates={"bfloat16": 800.0}, l2=50_000_000)
    >>> copy = Timing(problem={"n": 1}, microseconds=125.0, spread=1.0, bytes=450_000_000, written=225_000_000)
    >>> found = standing(copy, "float32", ceilings)
    >>> found.least, found.share, found.bound, found.moved
    (100.0, 0.8, 'memory', 400000000)
    """
    moved = max(0, timing.bytes - min(timing.written, ceilings.l2))
    rate = ceilings.rates.get(dtype or "", 0.0)
    memory = moved / ceilings.bandwidth / 1e3
    products = timing.flops / rate / 1e6 if rate else 0.0
    if not memory and not products:
        return None
    note = ABOVE if max(memory, products) > timing.microseconds + timing.spread else ""
    return Standing(memory=memory, products=products, microseconds=timing.microseconds, moved=moved, note=note)
