"""Rehearsals: real objects, compiled here, whose launches are recorded and held against plans; no GPU is needed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from precast.build.compile.outcome import Compiled, outcome_of, request_for
from precast.build.compile.worker import Worker
from precast.build.errors import Location, PlanError
from precast.build.gpu.profile import Profiles
from precast.build.ipc.message import Message
from precast.build.link import elf, rehearsal
from precast.build.link.device_code import read_cubins
from precast.build.link.rehearsal import rehearse
from precast.build.link.toolchain import Toolchain, find_toolchain
from precast.build.plan.variant import Variant
from precast.kernels.authoring.registry import find
from precast.loader.format.config import Value
from precast.loader.format.launch_plan import LaunchPlan
from precast.loader.format.signature import Signature
from precast.loader.format.target import Target
from precast.loader.launch.arguments import View, bind, lengths

pytestmark = pytest.mark.slow
TARGET = Target.parse("sm_90a")
CONFIGS: list[tuple[str, dict[str, Value]]] = [
    ("scale", {"dtype": "bfloat16", "rank": 1, "threads": 128, "unroll": 4}),
    ("scale", {"dtype": "float32", "rank": 1, "threads": 1024, "unroll": 1}),
    ("rmsnorm", {"dtype": "bfloat16", "hidden": 128, "threads": 128}),
    ("rmsnorm", {"dtype": "float16", "hidden": 8192, "threads": 256}),
    ("add", {"dtype": "float16", "rank": 2, "threads": 128, "unroll": 4}),
]


@dataclass(frozen=True)
class Made:
    """An object, and all that a rehearsal is told of it."""

    toolchain: Toolchain
    code: bytes
    symbol: str
    signature: Signature
    launch_plan: LaunchPlan
    cubins: tuple[bytes, ...]

    def rehearse(self, launch_plan: LaunchPlan) -> None:
        rehearse(self.toolchain, self.code, self.symbol, self.signature, launch_plan, self.cubins)

    def ask(self, *calls: list[Any]) -> list[dict[str, Any]]:
        sizes = list(lengths(self.signature, self.launch_plan.parameters))
        sent = [[rehearsal._for_child(value) for value in call] for call in calls]
        return rehearsal._ask(self.toolchain, self.code, self.symbol, sizes, sent)


@pytest.fixture(scope="module")
def made() -> list[Made]:
    toolchain = find_toolchain()
    variants = [
        Variant(
            op=op, source=str(find(op)), config=config, target=TARGET,
            location=Location("here", 1, 1),
        )
        for op, config in CONFIGS
    ]  # fmt: skip
    return [_made(toolchain, outcome) for outcome in _compile(variants)]


def _compile(variants: list[Variant]) -> Iterator[Any]:
    worker = Worker(TARGET, {}, (), Profiles().of(TARGET))
    try:
        for variant in variants:
            worker.send(Message(request_for(variant, 120)))
            yield outcome_of(variant, worker.receive(300), worker.output)
    finally:
        worker.close()


def _made(toolchain: Toolchain, outcome: Any) -> Made:
    assert isinstance(outcome, Compiled), outcome
    (one,), plan = outcome.objects, outcome.launch_plan
    assert plan is not None
    cubins = tuple(c.code for c in read_cubins(toolchain, one.code))
    return Made(toolchain, one.code, one.symbol, one.signature, plan, cubins)


def test_the_plans_of_our_kernels_hold(made: list[Made]) -> None:
    for one in made:
        one.rehearse(one.launch_plan)


def wrong(plan: LaunchPlan) -> list[LaunchPlan]:
    x, y, z = plan.grid
    assert isinstance(x, tuple) and isinstance(x[1], tuple)
    tile = x[1][2]
    assert isinstance(tile, int)
    return [
        replace(plan, grid=(("ceil_div", "x.shape[0]", tile + 1), y, z)),
        replace(plan, grid=(("max", ("floor_div", "x.shape[0]", tile), 1), y, z)),
        replace(plan, grid=(("add", x, 1), y, z)),
        replace(plan, grid=(x, 2, z)),
        replace(plan, block=(plan.block[0], 1, 2)),
        replace(plan, cluster=(2, 1, 1)),
        replace(plan, shared=16),
        replace(plan, parameters=plan.parameters[:-1]),
        replace(plan, parameters=(plan.parameters[-1], *plan.parameters[:-1])),
        replace(plan, parameters=("out", *plan.parameters[1:-2], "x", plan.parameters[-1])),
        replace(plan, grid=(("max", ("ceil_div", "x.shape[1]", tile), 1), y, z)),
    ]


def test_every_wrong_plan_is_found(made: list[Made]) -> None:
    for one in made[:4:2]:
        for plan in wrong(one.launch_plan):
            with pytest.raises(PlanError, match=r"launch=|leave 'cubin' out"):
                one.rehearse(plan)


def test_an_object_that_does_more_than_launch_has_no_plan(
    made: list[Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poorer = tmp_path / "poorer.c"
    poorer.write_text(rehearsal.SOURCE.read_text().replace("_cudaGetDevice(", "_cudaGetSomethingElse("))
    monkeypatch.setattr(rehearsal, "SOURCE", poorer)
    with pytest.raises(PlanError, match="does more than launch"):
        made[0].rehearse(made[0].launch_plan)


def test_the_device_code_tells_its_parameters(made: list[Made]) -> None:
    (kernel,) = elf.kernels(made[2].cubins[0])
    assert elf.kernel_parameters(made[2].cubins[0], kernel) == ((0, 24), (24, 8), (32, 24), (56, 4))


def spoilt(call: list[Any], draw: random.Random) -> list[Any]:
    """A call with something wrong with it, most of the time."""
    call = list(call)
    for _ in range(draw.randrange(1, 3)):
        if draw.random() < 0.1:
            return draw.choice([call[:-1], [*call, 1], []])
        place = draw.randrange(len(call))
        value = call[place]
        if not isinstance(value, View) or not value.shape:
            call[place] = draw.choice([None, 1, True, 2.5, -(2**63), value])
            continue
        shape, strides = list(value.shape), list(value.strides)
        axis = draw.randrange(len(shape))
        shape[axis] = draw.choice([0, 1, 2, shape[axis] + 1, shape[axis]])
        strides[axis] = draw.choice([0, 1, 2, strides[axis] + 1, strides[axis] * 2, -strides[axis]])
        call[place] = draw.choice(
            [
                None, 3, replace(value, data=value.data + draw.choice([1, 4, 8])),
                replace(value, shape=tuple(shape)), replace(value, strides=tuple(strides)),
                replace(value, shape=(*value.shape, 1), strides=(*value.strides, 1)),
                replace(value, dtype=draw.choice(["float64", "int32", "bfloat16"])),
                replace(value, device=draw.choice([(1, 0), (2, 1), (3, 0)])),
                replace(value, shape=value.shape[:-1], strides=value.strides[:-1]),
            ]
        )  # fmt: skip
    return call


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_arguments_are_refused_in_the_words_of_the_object(made: list[Made], number: int) -> None:
    """The loader's own checks, which a cubin is launched behind, against the host code of the same kernel."""
    one, op, draw = made[number], CONFIGS[number][0], random.Random(number)
    calls = [spoilt(rehearsal._arguments(one.signature, draw), draw) for _ in range(600)]
    refused = 0
    for call, answer in zip(calls, one.ask(*calls), strict=True):
        try:
            bind(op, one.signature, call)
            ours = None
        except (TypeError, ValueError) as error:
            ours = [type(error).__name__, str(error)]
            refused += 1
        assert ours == answer.get("error"), call
    assert refused > 300
