"""Rehearsals: real objects, compiled here, whose launches are recorded; plans are held against them, and host programs
are derived from them. No GPU is needed."""

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
from precast.build.link import elf
from precast.build.link.device_code import read_cubins
from precast.build.link.toolchain import Toolchain, find_toolchain
from precast.build.plan.variant import Variant
from precast.build.rehearsal import fit, recorder
from precast.build.rehearsal.calls import Caller
from precast.build.rehearsal.derive import derive
from precast.build.rehearsal.draw import Draw
from precast.build.rehearsal.recorder import Recorded, Recorder
from precast.build.rehearsal.rehearsal import Rehearsal
from precast.kernels.authoring.launch_plan import LaunchPlan
from precast.kernels.authoring.registry import find
from precast.loader.contract.format.config import Value
from precast.loader.contract.format.program.call_leaves import DrawnTensor, leaves_of
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Target
from tests.helpers.gpu.signature_check import bind

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("without_torch")]
TARGET = Target.parse("sm_90a")
CONFIGS: list[tuple[str, dict[str, Value]]] = [
    ("scale", {"dtype": "bfloat16", "rank": 1, "threads": 128, "unroll": 4}),
    ("scale", {"dtype": "float32", "rank": 1, "threads": 1024, "unroll": 1}),
    ("rmsnorm", {"dtype": "bfloat16", "hidden": 128, "threads": 128}),
    ("rmsnorm", {"dtype": "float16", "hidden": 8192, "threads": 256}),
    ("add", {"dtype": "float16", "rank": 2, "threads": 128, "unroll": 4}),
]
DERIVED: list[tuple[str, dict[str, Value]]] = [
    # Descriptors of TMA, clusters, and a launch that waits for none before it; two kernels; a most of blocks.
    ("gemm", {"dtype": "bfloat16", "out_dtype": "bfloat16", "library": "precast", "swap": True, "tile": (160, 192),
              "cluster": (2, 1)}),
    ("mla_decode", {"dtype": "bfloat16", "page": 64, "keys": 64}),
    ("all_reduce", {"dtype": "bfloat16", "world": 2, "shots": 2}),
]  # fmt: skip


@dataclass(frozen=True)
class Made:
    """An object, and all that a rehearsal is told of it."""

    toolchain: Toolchain
    code: bytes
    symbol: str
    signature: Signature
    launch_plan: LaunchPlan | None
    cubins: tuple[bytes, ...]

    @property
    def written(self) -> HostProgram:
        """The program of the author's plan; the launches of TARGET may overlap, which a plan does not say."""
        assert self.launch_plan is not None
        (kernel,) = elf.kernels(self.cubins[0])
        (step,) = self.launch_plan.program(self.signature, kernel).steps
        return HostProgram(steps=(replace(step, overlap=True),))

    def check(self, launch_plan: LaunchPlan) -> HostProgram:
        return Rehearsal(self.toolchain, self.code, self.symbol, self.signature, self.cubins).check(launch_plan)

    def derive(self) -> HostProgram:
        return derive(self.toolchain, self.code, self.symbol, self.signature, self.cubins)

    def ask(self, *calls: list[Any]) -> list[Recorded]:
        with Recorder(self.toolchain, self.code, self.symbol, self.cubins[0]) as asked:
            return asked.ask(calls)


@pytest.fixture(scope="module")
def made() -> list[Made]:
    return _all(CONFIGS)


@pytest.fixture(scope="module")
def harder() -> list[Made]:
    return _all(DERIVED)


def _all(configs: list[tuple[str, dict[str, Value]]], target: Target = TARGET) -> list[Made]:
    toolchain = find_toolchain()
    variants = [
        Variant(
            op=op, source=str(find(op)), config=config, target=target,
            location=Location("here", 1, 1),
        )
        for op, config in configs
    ]  # fmt: skip
    return [_made(toolchain, outcome) for outcome in _compile(variants)]


def _compile(variants: list[Variant]) -> Iterator[Any]:
    target = variants[0].target
    worker = Worker(target, {}, (), Profiles().of(target))
    try:
        for variant in variants:
            worker.send(Message(request_for(variant, 120)))
            yield outcome_of(variant, worker.receive(300), worker.output)
    finally:
        worker.close()


def _made(toolchain: Toolchain, outcome: Any) -> Made:
    assert isinstance(outcome, Compiled), outcome
    (one,), plan = outcome.objects, outcome.launch_plan
    cubins = tuple(c.code for c in read_cubins(toolchain, one.code))
    return Made(toolchain, one.code, one.symbol, one.signature, plan, cubins)


def test_the_plans_of_our_kernels_hold(made: list[Made]) -> None:
    for one in made:
        assert one.launch_plan is not None
        assert one.check(one.launch_plan) == one.written


def test_before_sm_90_no_launch_overlaps_another() -> None:
    """The same plan: only the object knows."""
    (one,) = _all(CONFIGS[:1], Target.parse("sm_80"))
    assert one.launch_plan is not None
    assert [step.overlap for step in one.check(one.launch_plan).steps] == [False]


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
        assert one.launch_plan is not None
        for plan in wrong(one.launch_plan):
            with pytest.raises(PlanError, match="launch="):
                one.check(plan)


def test_what_is_derived_is_what_an_author_would_write(made: list[Made]) -> None:
    """The same launches for the same calls, though perhaps in other words."""
    for one in made:
        program, written = one.derive(), one.written
        draw = Draw(one.signature, "other", tame=True)
        for _ in range(300):
            leaves = leaves_of(one.signature, draw.call())
            assert program.launches(leaves) == written.launches(leaves)


def test_descriptors_clusters_and_several_kernels_are_derived(harder: list[Made]) -> None:
    gemm, decode, reduce = (one.derive() for one in harder)
    (step,) = gemm.steps
    assert step.cluster == (2, 1, 1) and step.overlap and step.grid[0][0] == "min"  # type: ignore[index]
    assert [p.size for p in step.parameters].count(128) == 2, "two descriptors"
    assert [len(decode.steps), decode.steps[1].when[0], decode.limit > 0] == [2, "mul", True]  # type: ignore[index]
    assert reduce.steps[0].grid[0][0] == "min"  # type: ignore[index]
    for one, program in zip(harder, (gemm, decode, reduce), strict=True):
        caller = Caller(one.toolchain, one.code, one.symbol, one.signature, one.cubins[0])
        assert caller.difference(program, caller.drawn("yet another", 1500, tame=True, near=program)) is None
        assert one.derive() == program, "the same object gives the same program"


def test_a_program_with_one_thing_wrong_is_found(harder: list[Made]) -> None:
    one = harder[0]
    program = one.derive()
    caller = Caller(one.toolchain, one.code, one.symbol, one.signature, one.cubins[0])
    calls = caller.drawn("calls", 600, tame=True, near=program)
    assert caller.difference(program, calls) is None
    (step,) = program.steps
    changes: list[dict[str, Any]] = [
        {"overlap": False}, {"when": 1}, {"cluster": (1, 1, 1)}, {"shared": 1}, {"block": (1, 1, 1)},
        {"grid": (("add", step.grid[0], 1), 1, 1)},
    ]  # fmt: skip
    for place, parameter in enumerate(step.parameters):
        for number, word in enumerate(parameter.words):
            words = (
                *parameter.words[:number],
                word._replace(value=("add", word.value, 1)),
                *parameter.words[number + 1 :],
            )
            changed = (*step.parameters[:place], replace(parameter, words=words), *step.parameters[place + 1 :])
            changes.append({"parameters": changed})
    for change in changes:
        assert caller.difference(replace(program, steps=(replace(step, **change),)), calls), change


def test_what_cannot_be_explained_is_no_program(made: list[Made], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is guessed: the error names the number."""
    one = made[0]
    monkeypatch.setattr(fit, "_products", lambda *_: iter(()))
    with pytest.raises(PlanError, match=r"the grid\[0\] of .* could not be explained by what is passed"):
        one.derive()
    rehearsal = Rehearsal(one.toolchain, one.code, one.symbol, one.signature, one.cubins)
    assert rehearsal.derived()[0] is None and "could not be explained" in rehearsal.derived()[1]


def test_an_object_that_does_more_than_launch_has_no_plan(
    made: list[Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poorer = tmp_path / "poorer.c"
    poorer.write_text(recorder.SOURCE.read_text().replace("_cudaGetDevice(", "_cudaGetSomethingElse("))
    monkeypatch.setattr(recorder, "SOURCE", poorer)
    with pytest.raises(PlanError, match="does more than launch"):
        made[0].derive()


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
        if not isinstance(value, DrawnTensor) or not value.shape:
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
    """The checks that native code is tested against, against the host code of the same kernel."""
    one, op, draw = made[number], CONFIGS[number][0], random.Random(number)
    drawn = Draw(one.signature, "spoilt", tame=False)
    calls = [spoilt(drawn.call(), draw) for _ in range(600)]
    refused = 0
    for call, answer in zip(calls, one.ask(*calls), strict=True):
        try:
            bind(op, one.signature, call)
            ours = None
        except (TypeError, ValueError) as error:
            ours = (type(error).__name__, str(error))
            refused += 1
        assert ours == answer.error, call
    assert refused > 300
