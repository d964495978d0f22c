"""Pages of caches: one with measurements and times, one beside an older cache; and a browser that shows them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast.build.cache.contents import CacheContents
from precast.loader.contract.format.artifact import Artifact, Resources
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.values import replace
from precast.loader.resolve.cache import Cache
from precast.measure.annotate import Measurements, tune
from precast.measure.bench.report import Report, Row
from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings
from precast.measure.web_report.page import page
from precast.measure.web_report.page_data import page_data
from tests.helpers.caches import SCALE_KEYS, CacheWriter, Native, artifact
from tests.helpers.web import browser

HOSTILE = "<img src=x onerror=\"document.title='taken'\"></script><script>document.title='taken'</script>"
DTYPES, THREADS = ("bfloat16", "float16", "float32"), (64, 128, 256, 512)


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("native"))


@pytest.fixture(scope="module")
def hostile() -> str:
    """A text of the cache that would like to be markup."""
    return HOSTILE


def write(native: Native, folder: Path, *, older: bool = False) -> tuple[Path, list[Artifact]]:
    """A cache of twelve variants; ``older``, it lacks three, has another one, and one with other code."""
    writer = CacheWriter(name="shown")
    writer.runtime(*native.runtime())
    rows = []
    for dtype in (*DTYPES, "int32") if older else DTYPES:
        for threads in THREADS[-1:] if dtype == "int32" else THREADS[1 if older else 0 :]:
            other = older and (dtype, threads) == ("float32", 512)
            blob = writer.keep(native.entry(offset=threads * 10 + len(dtype)) + bytes(threads + other))
            used = Resources(kernel="k", registers=40 if other else 32, shared=0, stack=0, local=0)
            config = {"dtype": dtype, "layout": HOSTILE, "threads": threads}
            rows.append(artifact(blob, config, resources=(used,)))
    writer.op("scale", rows, keys=SCALE_KEYS)
    writer.ops["scale"] = replace(writer.ops["scale"], doc=HOSTILE)
    return writer.write(folder / "cache"), rows


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory, native: Native) -> tuple[Path, list[Artifact]]:
    """With measurements, and texts that would like to be markup."""
    path, rows = write(native, tmp_path_factory.mktemp("cache"))
    times = {row.key: 10.0 + place for place, row in enumerate(rows)}
    measured = [
        Measured(gpu="NVIDIA H200", capability=Capability(9, 0), problem={"m": m, "n": n}, times=times)
        for m in (1, 16, 128) for n in (64, 4096)
    ]  # fmt: skip
    tune(Cache(path), [Measurements({"scale": tuple(measured)})])
    return path, rows


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, cache: tuple[Path, list[Artifact]]) -> Path:
    """The page of the cache, with times of a bench."""
    timing = Timing(problem={"n": 8}, microseconds=200.0, spread=1.0, bytes=400_000_000, written=0)
    timed = tuple(Row(op="scale", key=r.key, target="sm_90a", config=r.config, timing=timing) for r in cache[1][:3])
    ceilings = Ceilings(bandwidth=4000.0, rates={}, l2=0)
    bench = Report(gpu="NVIDIA H200", capability=Capability(9, 0), ceilings=ceilings, rows=timed)
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(page_data(CacheContents.open(cache[0]), bench=bench, seconds=1700000000)))
    return path


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory, cache: tuple[Path, list[Artifact]], native: Native) -> Path:
    """The page of the cache beside an older one."""
    folder = tmp_path_factory.mktemp("compared")
    older, _ = write(native, folder, older=True)
    path = folder / "report.html"
    path.write_text(page(page_data(CacheContents.open(cache[0]), against=CacheContents.open(older))))
    return path


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser.browser() as driver:
        yield driver
