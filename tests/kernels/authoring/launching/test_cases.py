"""Which artifacts ``verify`` and ``bench`` launch: none that its GPU must not run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from precast.kernels.authoring.errors import UnknownOp
from precast.kernels.authoring.launching.cases import LeftOut, cases, declaration_for
from precast.loader import session
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.target import Target
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


@pytest.mark.parametrize(("part", "verifiable"), [("dq", True), ("other", False)])
def test_a_part_has_the_declaration_of_its_function_for_it(native: Native, part: str, verifiable: bool) -> None:
    one = demo(native).ops["scale"].artifacts[0]
    config = {"dtype": "bfloat16", "head_dim": 64, "heads_per_kv": 1, "causal": True, "layout": "dense"}
    made = {"registered": True, "function": "ignored:here", "parts": ["prepare", "main", "dq", "other"]}
    artifact = replace(
        one,
        config={**config, "deterministic": False, "two_cta": False},
        provenance=made,
        target=Target.parse("sm_90a"),
    )
    declaration = declaration_for(f"attention_bwd.{part}", artifact)
    assert declaration.op == f"attention_bwd.{part}" and declaration.verifiable == verifiable
    with pytest.raises(UnknownOp):
        declaration_for("attention_bwd.unnamed", artifact)
