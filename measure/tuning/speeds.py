"""Speeds: rates and bandwidths from data sheets, for a model of variants that were not measured on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from precast.build.gpu.profile import profile_named
from precast.loader.contract.format.config import suggest
from precast.loader.errors import TargetError

_HALF = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """TFLOP/s of dense products by dtype, GB/s of the memory, the number of SMs; and the source of the numbers."""

    rates: Mapping[str, float]
    bandwidth: float
    multiprocessors: int
    source: str

    def flops(self, dtype: str) -> float:
        """Operations a microsecond."""
        if dtype not in self.rates:
            raise TargetError(f"there is no rate of {dtype} in {self.source}: add it to precast.measure.tuning.speeds")
        return self.rates[dtype] * 1e6

    @property
    def bytes(self) -> float:
        """Bytes a microsecond."""
        return self.bandwidth * 1e3


def _rates(half: float, eight: float, single: float, double: float) -> Mapping[str, float]:
    return {**dict.fromkeys(_HALF, half), "float8_e4m3fn": eight, "float8_e5m2": eight, "int8": eight,
            "float32": single, "float64": double}  # fmt: skip


_SHEETS: Mapping[str, tuple[Mapping[str, float], float, str]] = {
    "H100": (_rates(989, 1979, 67, 67), 3350, "the data sheet of H100 SXM, without sparsity"),
    "H200": (_rates(989, 1979, 67, 67), 4800, "the data sheet of H200 SXM, without sparsity"),
    "B200": (_rates(2250, 4500, 75, 37), 7700, "the data sheet of HGX B200, an eighth of it, without sparsity"),
}


def speeds_named(name: str) -> Speeds:
    """The speeds of a GPU that has a profile of this name.

    >>> speeds_named("B200").multiprocessors
    148
    """
    if name not in _SHEETS:
        raise TargetError(f"there are no speeds of a GPU {name!r}{suggest(name, _SHEETS)}")
    rates, bandwidth, source = _SHEETS[name]
    count = profile_named(name).answer("multiprocessor_count")
    assert isinstance(count, int)
    return Speeds(rates=rates, bandwidth=bandwidth, multiprocessors=count, source=source)
