"""Which artifacts ``verify`` and ``bench`` launch: none that its GPU must not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.kernels.authoring.launching.cases import LeftOut, cases
from precast.loader import session
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.values import replace
from precast.loader.machine.driver import CurrentDriver
from precast.loader.machine.machine import Machines
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import Native, demo


@pytest.fixture
def native(tmp_path: Path) -> Native:
    return Native(tmp_path)


@pytest.fixture(autouse=True)
def _on_a_small_gpu(native: Native, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAKE_SMS", "78")
    before = session.use(session.Session("", machines=Machines(driver=CurrentDriver(str(native.driver())))))
    yield
    session.use(before)


def test_an_artifact_for_another_gpu_is_left_out_with_the_reason(native: Native, tmp_path: Path) -> None:
    """It is not opened: its blocks may wait for each other, for ever."""
    writer = demo(native)
    listed = writer.ops["scale"]
    wrong = Assumptions(needs={"multiprocessor_count": 132}, speed={})
    changed = tuple(replace(a, assumes=wrong) for a in listed.artifacts)
    writer.ops["scale"] = OpIndex.of(op="scale", keys=listed.keys, doc=listed.doc, artifacts=changed)
    cache = Cache(writer.write(tmp_path / "wrong"))
    found = list(cases(cache, session.default.machines.driver.find(), ["scale"]))
    here = [one for one in found if isinstance(one, LeftOut) and str(one.artifact.target) == "sm_90a"]
    assert here and len(found) == len(changed)
    assert all(
        one.reason.startswith("built for a GPU whose multiprocessor_count is 132, this one's is 78") for one in here
    )
