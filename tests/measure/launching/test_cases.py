"""Which artifacts ``verify`` and ``bench`` launch: none that its GPU must not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.kernels.authoring.composition import Part
from precast.kernels.authoring.declare import kernel
from precast.loader import session
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.target import Target
from precast.loader.contract.values import replace
from precast.loader.machine.driver import CurrentDriver
from precast.loader.machine.machine import Machines
from precast.loader.resolve.cache import Cache
from precast.measure.launching.cases import LeftOut, cases, declaration_for
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


def part(name: str, config: Config, target: Target) -> Part | None:
    """How the first object of a function that compiles two is verified."""
    if name != "first":
        return None
    return Part(problems=[{"n": 1}], inputs=dict, outputs=("out",), reference=lambda config, inputs: {})


@kernel(op="split", part=part)
def split() -> None:
    """Compiles two objects."""


@pytest.mark.parametrize(("name", "verifiable"), [("first", True), ("second", False)])
def test_a_part_has_the_declaration_of_its_function_for_it(
    native: Native, monkeypatch: pytest.MonkeyPatch, name: str, verifiable: bool
) -> None:
    monkeypatch.setattr("precast.kernels.authoring.registry.find", lambda op: {"split": split}[op])
    monkeypatch.setattr("precast.measure.launching.cases.load", lambda function: function)
    made = {"registered": True, "function": "ignored:here", "parts": ["first", "second"]}
    artifact = replace(demo(native).ops["scale"].artifacts[0], config={}, provenance=made)
    declaration = declaration_for(f"split.{name}", artifact)
    assert declaration.op == f"split.{name}" and declaration.verifiable == verifiable
    with pytest.raises(KeyError):
        declaration_for("split.unnamed", artifact)
