"""What a device is asked for artifacts that assume something of their GPU: once, and only where it matters."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.values import replace
from precast.loader.machine.driver import CurrentDriver
from precast.loader.machine.facts import ATTRIBUTES, attribute_name, cluster_size
from precast.loader.machine.machine import Machines
from tests.helpers.caches import Native, demo
from tests.helpers.loader_fixtures import Use

SMS, PAIRS = "multiprocessor_count", "max_active_clusters_2"
ATTRIBUTE, MODULE, OCCUPANCY = 8, 9, 11  # which calls of the stand-in driver are counted where


@pytest.fixture
def library(native: Native) -> Iterator[ctypes.CDLL]:
    yield ctypes.CDLL(str(native.driver()))


@pytest.fixture
def machines(native: Native, monkeypatch: pytest.MonkeyPatch) -> Machines:
    monkeypatch.setenv("FAKE_SMS", "132")
    monkeypatch.setenv("FAKE_OTHER_SMS", "148")
    return Machines(driver=CurrentDriver(str(native.driver())))


def test_a_fact_is_asked_once_a_device(machines: Machines, library: ctypes.CDLL) -> None:
    machine, other = machines.on(0), machines.on(1)
    assert machine.query is not None and other.query is not None
    before = library.fake_count(ATTRIBUTE)
    assert [machine.query(SMS), machine.query(SMS), machines.on("cuda:0").query(SMS)] == [132] * 3  # type: ignore[misc]
    assert library.fake_count(ATTRIBUTE) == before + 1
    assert other.query(SMS) == 148
    assert library.fake_count(ATTRIBUTE) == before + 2
    counted = library.fake_count(OCCUPANCY)
    assert [machine.query(PAIRS), machine.query(PAIRS), other.query(PAIRS), machine.query("max_active_clusters_4")] == [
        66, 66, 74, 33,
    ]  # fmt: skip
    assert library.fake_count(OCCUPANCY) == counted + 3


def test_the_names_of_facts(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = machines.on(0).query
    assert ask is not None
    names = ("name", "total_memory", "driver_version", "max_portable_cluster_size", "compute_capability_major")
    assert [ask(name) for name in names] == ["Fake Hopper", 141 << 30, 12090, 8, 9]
    assert [ask(name) for name in ("no_such_fact", "max_active_clusters_0", "max_active_clusters_99")] == [None] * 3
    monkeypatch.setenv("FAKE_OCCUPANCY", "1")
    assert ask("max_active_clusters_8") is None, "the driver refuses to count"


def test_a_gpu_without_clusters_runs_one_block_an_sm(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CLUSTERS", "0")
    ask = machines.on(0).query
    assert ask is not None
    assert (ask("max_active_clusters_1"), ask("max_portable_cluster_size")) == (132, 1)


def test_the_numbers_of_attributes_are_those_of_cuda() -> None:
    driver = pytest.importorskip("cuda.bindings.driver")
    theirs: dict[int, set[str]] = {}
    for attribute in driver.CUdevice_attribute:
        name = attribute.name.removeprefix("CU_DEVICE_ATTRIBUTE_").lower()
        if name != "max":  # one more than the last
            theirs.setdefault(int(attribute), set()).add(name)
    wrong = {name: number for name, number in ATTRIBUTES.items() if name not in theirs.get(number, {name})}
    assert wrong == {} and len(ATTRIBUTES) > 140
    assert attribute_name(ATTRIBUTES[SMS]) == SMS
    with pytest.raises(ValueError, match="100000 is not the number"):
        attribute_name(100_000)
    sizes = [cluster_size(f"max_active_clusters_{text}") for text in ("1", "32", "33", "x", "-1")]
    assert sizes == [1, 32, None, None, None]


def write(native: Native, folder: Path, assumes: Assumptions | None, **more: Any) -> Path:
    """The demo cache with these assumptions in every artifact."""
    writer = demo(native)
    listed = writer.ops["scale"]
    changed = [replace(a, assumes=assumes, **more) for a in listed.artifacts]
    writer.ops["scale"] = OpIndex.of(op="scale", keys=listed.keys, doc=listed.doc, artifacts=tuple(changed))
    return writer.write(folder)


def test_a_get_asks_nothing_more_where_nothing_is_assumed(
    native: Native, tmp_path: Path, use: Use, machines: Machines, library: ctypes.CDLL
) -> None:
    """Nor where the provenance has what its kernels queried: that is for people, who ask for an explanation."""
    use(write(native, tmp_path / "plain", None, provenance={"assumed": {SMS: 78}}), machines=machines)
    machines.on()  # the driver has started
    before = [library.fake_count(which) for which in range(16)]
    loader.get("scale", {"dtype": "float32"})
    loader.get("scale", {"dtype": "float32"}, problem={"n": 4096})
    assert [library.fake_count(which) for which in range(16)] == before


def test_a_get_asks_only_for_what_is_assumed(
    native: Native, tmp_path: Path, use: Use, machines: Machines, library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = Assumptions(needs={SMS: 132}, speed={})
    use(write(native, tmp_path / "asking", needs), machines=machines)
    machines.on()
    before = library.fake_count(ATTRIBUTE), library.fake_count(OCCUPANCY)
    kernel = loader.get("scale", {"dtype": "float32"})
    assert kernel.artifact.assumes == needs
    assert (library.fake_count(ATTRIBUTE), library.fake_count(OCCUPANCY)) == (before[0] + 1, before[1])
    loader.get("scale", {"dtype": "bf16"})
    assert library.fake_count(ATTRIBUTE) == before[0] + 1, "it is known by now"
    monkeypatch.setenv("FAKE_SMS", "78")
    use(tmp_path / "asking", machines=Machines(driver=CurrentDriver(str(native.driver()))))
    with pytest.raises(loader.VariantNotFound, match="multiprocessor_count is 132, this one's is 78: build it with"):
        loader.get("scale", {"dtype": "float32"})
    assert loader.get("scale", {"dtype": "float32"}, target="sm_90a").artifact.assumes == needs


@pytest.mark.parametrize(
    ("needs", "other", "remembered"),
    [({SMS: 132}, 132, True), ({SMS: 132}, 78, False), ({PAIRS: 66}, 132, False), (None, 78, True)],
)
def test_a_choice_is_remembered_for_all_devices_only_where_it_is_right_on_all(
    native: Native,
    tmp_path: Path,
    use: Use,
    machines: Machines,
    library: ctypes.CDLL,
    monkeypatch: pytest.MonkeyPatch,
    needs: dict[str, int] | None,
    other: int,
    remembered: bool,
) -> None:
    """Two devices of one capability may differ. Those whose clusters nobody counted yet are taken to differ."""
    monkeypatch.setenv("FAKE_TWINS", "1")
    monkeypatch.setenv("FAKE_OTHER_SMS", str(other))
    monkeypatch.setenv("FAKE_CONTEXT", "1")
    used = use(write(native, tmp_path / "c", Assumptions(needs=needs, speed={}) if needs else None), machines=machines)
    counted = library.fake_count(OCCUPANCY)
    first = loader.get("scale", {"dtype": "float32"})
    assert bool(used.memo) == remembered
    assert library.fake_count(OCCUPANCY) - counted == (1 if needs and PAIRS in needs else 0), "of this device alone"
    monkeypatch.setenv("FAKE_CURRENT", "1")
    if needs and other != 132:
        with pytest.raises(loader.VariantNotFound, match="this one's is 78"):
            loader.get("scale", {"dtype": "float32"})
    else:
        assert loader.get("scale", {"dtype": "float32"}).artifact == first.artifact


def test_a_kernel_that_was_resolved_for_a_target_is_compared_at_its_first_call(
    native: Native, tmp_path: Path, use: Use, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(write(native, tmp_path / "c", Assumptions(needs={SMS: 132}, speed={})), machines=machines)
    kernel = loader.get("scale", {"dtype": "float32"}, target="sm_90a")
    monkeypatch.setenv("FAKE_SMS", "78")
    with pytest.raises(
        loader.WrongDevice, match="scale is built for a GPU whose multiprocessor_count is 132, this one's is 78"
    ):
        kernel(1)
    monkeypatch.setenv("FAKE_SMS", "132")
    use(tmp_path / "c", machines=Machines(driver=CurrentDriver(str(native.driver()))))
    loader.get("scale", {"dtype": "float32"}, target="sm_90a").check_device()


def test_a_first_get_imports_nothing_for_assumptions_where_there_are_none(path: Path) -> None:
    code = (
        "import sys\n"
        "from precast import loader\n"
        "loader.get('scale', {'dtype': 'float32'}, target='sm_90a')\n"
        "print(*(name for name in sys.modules if name.rpartition('.')[2] in ('assumptions', 'facts', 'occupancy')))"
    )
    environment = {**os.environ, "PRECAST_CACHE_PATH": str(path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
