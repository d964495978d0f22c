"""Metrics in the text format of Prometheus.

>>> print(text([counter("cups_total", "Cups that were filled.", {"kind": "tea"}, 3)]), end="")
# HELP cups_total Cups that were filled.
# TYPE cups_total counter
cups_total{kind="tea"} 3
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

Labels = Mapping[str, str]
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


@dataclass(frozen=True)
class Sample:
    """One line."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True)
class Metric:
    """A name with its samples."""

    name: str
    kind: str
    about: str
    samples: tuple[Sample, ...]


def counter(name: str, about: str, labels: Labels, value: float) -> Metric:
    """What only grows; its name ends in ``_total``."""
    return Metric(name, "counter", about, (Sample(name, labels, value),))


def gauge(name: str, about: str, values: Iterable[tuple[Labels, float]]) -> Metric:
    """What goes up and down, with labels for each value."""
    return Metric(name, "gauge", about, tuple(Sample(name, labels, value) for labels, value in values))


class Histogram:
    """How often a value was at most each bound. Any thread may add."""

    def __init__(self, name: str, about: str, bounds: Sequence[float]) -> None:
        self._name, self._about, self._bounds = name, about, tuple(sorted(bounds))
        self._counts, self._sum = [0] * (len(self._bounds) + 1), 0.0
        self._lock = threading.Lock()

    def add(self, value: float) -> None:
        """Count a value."""
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value

    def metric(self) -> Metric:
        """All buckets, which count what is in the smaller ones too."""
        with self._lock:
            counts, total = list(accumulate(self._counts)), self._sum
        ends = [*map(repr, map(float, self._bounds)), "+Inf"]
        buckets = (Sample(f"{self._name}_bucket", {"le": end}, n) for end, n in zip(ends, counts, strict=True))
        ending = (Sample(f"{self._name}_sum", {}, total), Sample(f"{self._name}_count", {}, counts[-1]))
        return Metric(self._name, "histogram", self._about, (*buckets, *ending))


def text(metrics: Iterable[Metric]) -> str:
    """What ``GET /metrics`` answers."""
    lines = []
    for metric in metrics:
        about = metric.about.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {metric.name} {about}", f"# TYPE {metric.name} {metric.kind}", *map(_line, metric.samples)]
    return "\n".join([*lines, ""])


def _line(sample: Sample) -> str:
    labels = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in sample.labels.items())
    value = int(sample.value) if float(sample.value).is_integer() else float(sample.value)
    return f"{sample.name}{'{' + labels + '}' if labels else ''} {value!r}"
