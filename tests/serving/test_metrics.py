"""The text of the metrics, read by Prometheus's own parser."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from serving.engine import Engine
from serving.metrics import Histogram, counter, gauge, text
from serving.model import Model, Weights
from serving.service import Service, loader_metrics
from serving.shape import SMALL
from serving.torch_kernels import TorchKernels

from precast import loader
from precast.loader import session
from precast.loader.machine.machine import Machines
from tests.helpers.echo import HOPPER

PRINTED = st.text(st.characters(codec="utf-8"), max_size=20)
VALUES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(1 << 53), 1 << 53)


def read(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample, by name and labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


@given(PRINTED, PRINTED, VALUES)
def test_any_label_and_value_is_read_back(about: str, label: str, value: float) -> None:
    page = text([gauge("it", about, [({"what": label, "more": "1"}, value)]), counter("n_total", about, {}, 3)])
    found = read(page)
    assert found == {("it", (("more", "1"), ("what", label))): value, ("n_total", ()): 3}


@given(st.lists(st.floats(0, 20), max_size=50))
def test_buckets_count_what_is_at_most_their_bound(values: list[float]) -> None:
    bounds = (0.5, 1.0, 10.0)
    histogram = Histogram("seconds", "", bounds)
    for value in values:
        histogram.add(value)
    found = read(text([histogram.metric()]))
    for bound in (*bounds, math.inf):
        name = "+Inf" if math.isinf(bound) else repr(bound)
        assert found["seconds_bucket", (("le", name),)] == sum(value <= bound for value in values)
    assert found["seconds_count", ()] == len(values)
    assert found["seconds_sum", ()] == pytest.approx(sum(values))


def test_the_page_of_a_service(caches: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of one whose second cache is broken, and that missed a variant."""
    monkeypatch.setenv("PRECAST_CACHE_PATH", f'{caches[0]}:/nowhere "at" all\\')
    before = session.use(session.Session(machines=Machines(HOPPER)))
    try:
        loader.get("scale", {"dtype": "float32"})
        with pytest.raises(loader.VariantNotFound):
            loader.get("scale", {"dtype": "int8"})
        model = Model(SMALL, TorchKernels(SMALL), "cpu", Weights.random(SMALL, "cpu", torch.float32))
        service = Service(Engine(model), SMALL, {"warm-up": 0.25}, loader_metrics)
        service.answered[200] += 2
        service.answered[400] += 1
        page = text(service.metrics())
        stats, (good, broken) = loader.stats(), loader.caches()
    finally:
        session.use(before)
    found = read(page)
    assert found["service_requests_total", (("status", "200"),)] == 2
    assert found["service_requests_total", (("status", "400"),)] == 1
    assert found["service_start_seconds", (("phase", "warm-up"),)] == 0.25
    assert found["process_resident_memory_bytes", ()] > 1 << 20
    assert (found["precast_lookups_total", ()], found["precast_misses_total", ()]) == (2, 1)
    assert (found["precast_loads_total", ()], found["precast_stored_bytes_total", ()]) == (1, stats.stored)
    assert good.cache is not None
    assert found["precast_cache_info", (("cache", "demo"), ("error", ""), ("index", good.cache.digest))] == 1
    assert found["precast_cache_info", (("cache", broken.name), ("error", str(broken.error)), ("index", ""))] == 1
    kinds = {family.name: family.type for family in text_string_to_metric_families(page)}
    assert kinds["precast_misses"] == "counter" and kinds["service_request_seconds"] == "histogram"
    assert all(family.documentation for family in text_string_to_metric_families(page))
