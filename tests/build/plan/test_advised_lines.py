"""The manifest lines in an error, given to the real planner: they must ask for the very variant that was missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast.build.plan.plan import Plan
from precast.build.plan.planner import plan_of_files
from precast.loader.contract.format.config import Key
from precast.loader.resolve.candidate import Request
from precast.loader.resolve.judge import resolve
from precast.loader.resolve.resolution import Resolution, manifest_lines
from tests.helpers.resolutions import HERE, scale, source

MODULE = """
def compile_it(dtype: str, hidden: int, tile: list[int] = [64, 64], stages: int = 2):
    raise SystemExit("planning calls no kernel function")
"""
KEYS = (
    Key(name="dtype", type="str"),
    Key(name="hidden", type="int"),
    Key(name="tile", type="list[int]", has_default=True, default=(64, 64)),
    Key(name="stages", type="int", tuned=True, has_default=True, default=2),
)
MADE = {"function": "advised:compile_it", "env": {"MODE": "yes: 1"}, "registered": False}
CONFIG: dict[str, Any] = {"dtype": "bfloat16", "hidden": 4096, "tile": (64, 64), "stages": 3}


def missing(made: dict[str, Any], op: str = "mine.norm", **config: object) -> Resolution:
    one = source(replace(scale(), config=CONFIG, provenance=made), keys=KEYS)
    found = resolve(Request(op=op, config=config), HERE, [one])
    assert found.chosen is None
    return found


def planned(found: Resolution, folder: Path) -> Plan:
    (folder / "advised.py").write_text(MODULE)
    path = folder / "advised.yaml"
    path.write_text("\n".join(["version: 1", "name: advised", "path: .", *manifest_lines(found)]) + "\n")
    return plan_of_files([path])


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"dtype": "float16", "hidden": 4097}, {"dtype": "float16", "hidden": 4097, "stages": 3}),
        ({"dtype": "yes", "hidden": 1, "tile": [1, 2]}, {"dtype": "yes", "hidden": 1, "tile": (1, 2)}),
        ({"dtype": "1e3: x", "hidden": -1, "stages": 9}, {"dtype": "1e3: x", "hidden": -1, "stages": 9}),
    ],
)
def test_lines_for_a_plain_function(tmp_path: Path, config: dict[str, Any], expected: dict[str, object]) -> None:
    plan = planned(missing(MADE, **config), tmp_path)
    (variant,) = plan.variants
    assert (variant.op, variant.source, str(variant.target)) == ("mine.norm", "advised:compile_it", "sm_90a")
    assert {**CONFIG, **expected} == dict(variant.config) and variant.env == MADE["env"]
    assert plan.ops["mine.norm"].keys == KEYS, "the same keys are tuned, so that old and new fit in one build"


def test_lines_for_a_function_of_several_parts(tmp_path: Path) -> None:
    made = {**MADE, "parts": ["forward", "backward"]}
    plan = planned(missing(made, op="mine.norm.backward", dtype="float16", hidden=8), tmp_path)
    (variant,) = plan.variants
    assert variant.produces == ("mine.norm.forward", "mine.norm.backward")


def test_lines_for_a_registered_op(tmp_path: Path) -> None:
    """Of a real op: what is tuned goes under ``tuned``, where a manifest wants it."""
    keys = (
        Key(name="dtype", type="dtype"),
        Key(name="hidden", type="int"),
        Key(name="threads", type="int", tuned=True, has_default=True, default=128),
    )
    config: dict[str, Any] = {"dtype": "bfloat16", "hidden": 4096, "threads": 128}
    made = {"function": "precast.kernels.own.norms.rmsnorm:rmsnorm", "env": {}, "registered": True}
    one = source(replace(scale(), config=config, provenance=made), keys=keys)
    for extra in ({}, {"threads": 512}):
        found = resolve(Request(op="rmsnorm", config={"dtype": "half", "hidden": 640, **extra}), HERE, [one])
        assert "- kernel: rmsnorm" in str(found)
        (variant,) = planned(found, tmp_path).variants
        assert dict(variant.config) == {"dtype": "float16", "hidden": 640, "threads": 128, **extra}
