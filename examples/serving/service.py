"""What the service knows of itself: whether it is ready, what it has answered, and its metrics."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from serving.engine import Engine
from serving.metrics import Histogram, Metric, Sample, counter, gauge
from serving.shape import Shape

_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Service:
    """One process that serves."""

    engine: Engine
    shape: Shape
    phases: Mapping[str, float]  # seconds of each part of the start
    kernel_metrics: Callable[[], list[Metric]]
    draining: bool = False
    answered: Counter[int] = field(default_factory=Counter)  # by HTTP status
    seconds: Histogram = field(
        default_factory=lambda: Histogram("service_request_seconds", "Time to answer /generate.", _BOUNDS)
    )

    def trouble(self) -> str | None:
        """Why no more requests should come here."""
        if self.engine.broken is not None:
            return f"the engine has stopped: {self.engine.broken}"
        return "draining" if self.draining else None

    def metrics(self) -> list[Metric]:
        """All of them."""
        load = self.engine.load()
        answered = [
            Sample("service_requests_total", {"status": str(status)}, count)
            for status, count in sorted(self.answered.items())
        ]
        return [
            Metric("service_requests_total", "counter", "Answers of /generate.", tuple(answered)),
            self.seconds.metric(),
            counter("service_steps_total", "Steps through the layers.", {}, load.steps),
            counter("service_step_seconds_total", "Time in steps.", {}, load.seconds),
            counter("service_tokens_total", "Tokens that were generated.", {}, load.tokens),
            gauge("service_waiting", "Requests without a seat.", [({}, load.waiting)]),
            gauge("service_running", "Requests with a seat.", [({}, load.running)]),
            gauge("service_draining", "1 while the service ends.", [({}, self.draining)]),
            gauge("service_start_seconds", "Time of each part of the start.",
                  [({"phase": name}, seconds) for name, seconds in self.phases.items()]),
            gauge("process_resident_memory_bytes", "Resident memory.", [({}, _resident())]),
            *self.kernel_metrics(),
        ]  # fmt: skip


def loader_metrics() -> list[Metric]:
    """What precast has loaded, out of which caches. A counter of misses that grows is a variant that nobody built."""
    from precast import loader

    stats = loader.stats()
    caches = [
        (
            {"cache": found.name, "index": found.cache.digest if found.cache else "", "error": str(found.error or "")},
            1.0,
        )
        for found in loader.caches()
    ]
    return [
        counter("precast_lookups_total", "Requests that were resolved.", {}, stats.lookups),
        counter("precast_misses_total", "Requests that found nothing to load.", {}, stats.misses),
        counter("precast_loads_total", "Kernels that were opened.", {}, stats.loads),
        counter("precast_stored_bytes_total", "Bytes that were read for them.", {}, stats.stored),
        counter("precast_seconds_total", "Time in lookups and loads.", {}, stats.seconds),
        gauge("precast_cache_info", "The caches, with the digests of their indexes.", caches),
    ]


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
