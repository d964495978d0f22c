"""Counts: what a session has loaded so far, in numbers."""

from __future__ import annotations

from typing import Any

from precast.loader.contract.values import Immutable
from precast.loader.locks import ForkSafeLock


class Stats(Immutable, kw_only=True):
    """Counts since the session began. A repeated ``get`` is not counted: it takes less than a microsecond.

    ``lookups`` are requests that were resolved, ``misses`` those that found nothing to load; ``loads`` are
    kernels that were opened, and ``stored`` the bytes that were read for them; ``seconds`` is the time of all of it.
    """

    lookups: int = 0
    misses: int = 0
    loads: int = 0
    stored: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        kernels = "1 kernel" if self.loads == 1 else f"{self.loads} kernels"
        lookups = "1 lookup" if self.lookups == 1 else f"{self.lookups} lookups"
        misses = "1 miss" if self.misses == 1 else f"{self.misses} misses"
        return f"{kernels} loaded ({self.stored} bytes), {lookups}, {misses}, {self.seconds * 1e3:.1f} ms in all"

    def openmetrics(self) -> str:
        """The counts as OpenMetrics text, which a service may answer to a scraper.

        >>> print(Stats(lookups=3, misses=1).openmetrics())
        # TYPE precast_lookups counter
        precast_lookups_total 3
        # TYPE precast_misses counter
        precast_misses_total 1
        # TYPE precast_loads counter
        precast_loads_total 0
        # TYPE precast_stored_bytes counter
        # UNIT precast_stored_bytes bytes
        precast_stored_bytes_total 0
        # TYPE precast_seconds counter
        # UNIT precast_seconds seconds
        precast_seconds_total 0.0
        # EOF
        <BLANKLINE>
        """
        counts = {"lookups": self.lookups, "misses": self.misses, "loads": self.loads, "stored_bytes": self.stored}
        lines = []
        for name, value in {**counts, "seconds": self.seconds}.items():
            unit = name.rpartition("_")[2]
            lines += [f"# TYPE precast_{name} counter"]
            lines += [f"# UNIT precast_{name} {unit}"] if unit in ("bytes", "seconds") else []
            lines += [f"precast_{name}_total {value}"]
        return "\n".join([*lines, "# EOF", ""])


class Counter:
    """Adds to the counts of a session, from several threads.

    >>> counter = Counter()
    >>> counter.add(lookups=1, seconds=0.5)
    >>> counter.stats.lookups
    1
    """

    def __init__(self) -> None:
        self._counts: dict[str, Any] = {"lookups": 0, "misses": 0, "loads": 0, "stored": 0, "seconds": 0.0}
        self._lock = ForkSafeLock()

    def add(self, **amounts: float) -> None:
        """Add to some of the counts, by the names that ``Stats`` has for them."""
        with self._lock:
            for name, amount in amounts.items():
                self._counts[name] += amount

    @property
    def stats(self) -> Stats:
        """The counts so far."""
        with self._lock:
            return Stats(**self._counts)
