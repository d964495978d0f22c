"""Measurements and evidence in a cache that is built: what changes, what does not, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from precast import loader
from precast.cli.main import app
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.contract.values import replace
from precast.loader.errors import FormatError, NoCudaDevice
from precast.loader.resolve.cache import Cache
from precast.measure.annotate import Measurements, add_evidence, tune
from tests.helpers.loader_fixtures import native, path, use

__all__ = ["native", "path", "use"]


def keys(cache: Cache) -> dict[Any, str]:
    rows = cache.op("scale").artifacts
    return {a.config["threads"]: a.key for a in rows if a.config["dtype"] == "bfloat16" and str(a.target) == "sm_90a"}


def one(times: dict[str, float], n: int = 1024, gpu: str = "NVIDIA H200") -> Measurements:
    row = Measured(gpu=gpu, capability=Capability(9, 0), problem={"n": n}, times=times)
    return Measurements({"scale": (row,)})


def tree(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_the_loader_chooses_by_what_was_put_in(path: Path, use: Callable[..., None], tmp_path: Path) -> None:
    known, before = keys(Cache(path)), tree(path)
    file = tmp_path / "m.json"
    file.write_bytes(one({known[128]: 1.0, known[256]: 2.0}).encode())
    result = CliRunner().invoke(app, ["tune", "apply", str(path), str(file)], catch_exceptions=False)
    assert result.exit_code == 0 and result.output == "scale: 2 measured times\n"
    use(path)
    assert loader.get("scale", {"dtype": "bf16"}, target="sm_90a", problem={"n": 9}).config["threads"] == 128
    assert loader.get("scale", {"dtype": "bf16"}, target="sm_90a").config["threads"] == 256
    after = tree(path)
    assert after.keys() == before.keys()
    assert {n for n in after if after[n] != before[n]} == {"index.json", "ops/scale.json"}


def test_the_order_of_what_is_measured_decides_nothing(path: Path) -> None:
    known = keys(Cache(path))
    parts = [one({known[128]: 1.0}), one({known[256]: 2.0}), one({known[128]: 3.0}, n=8)]
    assert tune(Cache(path), parts) == {"scale": 3}
    first = tree(path)
    assert tune(Cache(path), parts[::-1]) == {"scale": 3} and tree(path) == first
    tune(Cache(path), [one({known[128]: 7.0})])
    (row,) = (m for m in Cache(path).op("scale").tuning if m.problem == {"n": 1024})
    assert row.times == {known[128]: 7.0, known[256]: 2.0}, "the later one replaces the earlier one"


def test_tilings_stay_when_another_variant_is_measured(path: Path) -> None:
    known = keys(Cache(path))
    cut = {threads: Tiling(tile={"n": threads}, at_once=132) for threads in (128, 256)}
    for threads in cut:
        (row,) = one({known[threads]: 1.0}).ops["scale"]
        tune(Cache(path), [Measurements({"scale": (replace(row, tilings={known[threads]: cut[threads]}),)})])
    (row,) = Cache(path).op("scale").tuning
    assert row.tilings == {known[threads]: tiling for threads, tiling in cut.items()}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d, k: d["ops"].update(skale=d["ops"].pop("scale")), "has no op 'skale'"),
        (lambda d, k: d["ops"]["scale"][0].update(times={"f" * 64: 1.0}), "has no artifact ffffffffffff of scale"),
        (lambda d, k: d["ops"]["scale"].append(d["ops"]["scale"][0]), "occurs twice"),
        (lambda d, k: d["ops"]["scale"][0].update(times={k: -1}), "a positive number"),
        (lambda d, k: d.update(format="precast-cache"), "is not 'precast-measurements'"),
        (lambda d, k: d.update(more=1), "unknown key"),
        (lambda d, k: d.update(ops={"../x": []}), "not the name of an op"),
    ],
)
def test_what_does_not_fit_changes_nothing(path: Path, change: Callable[[Any, str], Any], words: str) -> None:
    known = keys(Cache(path))
    data = json.loads(one({known[128]: 1.0}).encode())
    change(data, known[128])
    before = tree(path)
    with pytest.raises(FormatError, match=words):
        tune(Cache(path), [Measurements.decode(json.dumps(data).encode())])
    assert tree(path) == before


def test_evidence_replaces_older_evidence_of_its_kind(path: Path) -> None:
    key = keys(Cache(path))[128]
    tune(Cache(path), [one({key: 1.0})])
    for worst in (0.5, 0.25):
        add_evidence(
            Cache(path), {"scale": {key: {"check": "verify", "gpu": "NVIDIA H200", "worst": worst, "failed": []}}}
        )
    add_evidence(Cache(path), {"scale": {key: {"check": "verify", "gpu": "NVIDIA B200", "worst": 1.0, "failed": []}}})
    cache = Cache(path)
    found = next(a for a in cache.op("scale").artifacts if a.key == key)
    assert [(e["gpu"], e["worst"]) for e in found.evidence] == [("NVIDIA B200", 1.0), ("NVIDIA H200", 0.25)]
    assert sum(bool(a.evidence) for a in cache.op("scale").artifacts) == 1
    assert cache.op("scale").tuning, "what was measured stays"


@pytest.mark.parametrize("command", ["verify", "bench"])
def test_without_a_device_it_is_said(path: Path, command: str, use: Callable[..., object]) -> None:
    from precast.loader.machine.driver import CurrentDriver
    from precast.loader.machine.machine import Machines

    use(path, machines=Machines(driver=CurrentDriver("libcuda-that-is-not-there.so.1")))
    before = tree(path)
    with pytest.raises(NoCudaDevice, match="Run this where there is one"):
        CliRunner().invoke(app, [command, str(path)], catch_exceptions=False)
    assert tree(path) == before


def test_one_that_was_asked_for_before_must_still_be_verified(path: Path, use: Callable[..., object]) -> None:
    """The first answer is remembered for the same request alone."""
    use(path)
    config = {"dtype": "bf16", "threads": 128}
    kernel = loader.get("scale", config, target="sm_90a")
    for ask in (loader.get, loader.get):
        with pytest.raises(loader.VariantNotFound, match=r"never verified on a GPU of 9\.0: run 'precast verify CACHE"):
            ask("scale", config, target="sm_90a", verified=True)
    with pytest.raises(loader.VariantNotFound, match="never verified"):
        loader.preload("scale", target="sm_90a", verified=True)
    assert "never verified" in str(loader.explain("scale", config, target="sm_90a", verified=True))
    entry = {"check": "verify", "gpu": "NVIDIA H200", "capability": "9.0", "failed": []}
    add_evidence(Cache(path), {"scale": {kernel.artifact.key: entry}})
    loader.caches(refresh=True)
    assert loader.get("scale", config, target="sm_90a", verified=True).artifact.key == kernel.artifact.key
    assert len(loader.preload("scale", target="sm_90a", verified=True).loaded) == 1
