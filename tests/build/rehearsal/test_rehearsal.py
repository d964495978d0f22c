"""Rehearsals: host programs are derived from the recorded launches of real objects, compiled here. No GPU is needed."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from precast.build.errors import PlanError
from precast.build.link import elf
from precast.build.link.toolchain import Toolchain, find_toolchain
from precast.build.rehearsal import fit, recorder
from precast.build.rehearsal.calls import Caller
from precast.build.rehearsal.derive import derive
from precast.build.rehearsal.draw import Draw
from precast.build.rehearsal.recorder import Recorded, Recorder
from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.kernels.own.elementwise.forms import tile_of
from precast.kernels.own.rows import split_of
from precast.loader.contract.format.config import Value
from precast.loader.contract.format.program.call_leaves import DrawnTensor, leaves_of
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.contract.format.signature import Signature
from tests.helpers.gpu.signature_check import bind
from tests.helpers.kernels.kept_builds import products

pytestmark = pytest.mark.slow
CONFIGS: list[tuple[str, dict[str, Value]]] = [
    ("scale", {"dtype": "bfloat16", "rank": 1, "threads": 128, "unroll": 4}),
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
    cubins: tuple[bytes, ...]

    def derive(self) -> HostProgram:
        return derive(self.toolchain, self.code, self.symbol, self.signature, self.cubins)

    def ask(self, *calls: list[Any]) -> list[Recorded]:
        with Recorder(self.toolchain, self.code, self.symbol, self.cubins[0]) as asked:
            return asked.ask(calls)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    return _all(CONFIGS, tmp_path_factory.mktemp("made"))


@pytest.fixture(scope="module")
def harder(tmp_path_factory: pytest.TempPathFactory) -> list[Made]:
    return _all(DERIVED, tmp_path_factory.mktemp("harder"))


@pytest.fixture(scope="module")
def programs(harder: list[Made]) -> list[HostProgram]:
    return [one.derive() for one in harder]


def _all(configs: list[tuple[str, dict[str, Value]]], folder: Path, target: str = "sm_90a") -> list[Made]:
    """The objects of these variants, each compiled once for all tests and runs."""
    entries = []
    for op, config in configs:
        tuned = {key.name for key in declaration_of(load(find(op))).keys if key.tuned}
        rows = {name: [list(value) if isinstance(value, tuple) else value] for name, value in config.items()}
        split = [{name: row for name, row in rows.items() if (name in tuned) == of} for of in (False, True)]
        entries.append({"kernel": op, "config": split[0], "tuned": split[1]})
    manifest = folder / "these.yaml"
    manifest.write_text(json.dumps({"version": 1, "name": "these", "targets": [target], "kernels": entries}))
    toolchain, objects = find_toolchain(), list(products(manifest))

    def made(op: str, config: dict[str, Value]) -> Made:
        (one,) = (p for v, p in objects if v.op == op and {**v.config, **config} == v.config)
        return Made(toolchain, one.obj, one.symbol, one.signature, one.cubins)

    return [made(op, config) for op, config in configs]


def blocks(op: str, config: dict[str, Value], sizes: Mapping[str, int]) -> int:
    """The blocks that a kernel launches: one for each tile or group of rows, and one where there is none."""
    if op == "rmsnorm":
        return max(-(-sizes["x.shape[0]"] // split_of(config).rows), 1)
    *rows, length = (sizes[f"x.shape[{axis}]"] for axis in range(2 if config["rank"] == 2 else 1))
    tiles = -(-length // tile_of(config).size)
    return max(rows[0] * max(tiles, 1) if rows else tiles, 1)


def test_the_launches_of_our_kernels_are_derived(made: list[Made]) -> None:
    for one, (op, config) in zip(made, CONFIGS, strict=True):
        program = one.derive()
        assert [step.overlap for step in program.steps] == [True]
        draw = Draw(one.signature, "other", tame=True)
        for _ in range(300):
            leaves = leaves_of(one.signature, draw.call())
            ((_, launch, _),) = program.launches(leaves)
            assert launch.grid == (blocks(op, config, leaves), 1, 1)


def test_before_sm_90_no_launch_overlaps_another(tmp_path: Path) -> None:
    (one,) = _all(CONFIGS[:1], tmp_path, "sm_80")
    assert [step.overlap for step in one.derive().steps] == [False]


def test_descriptors_clusters_and_several_kernels_are_derived(harder: list[Made], programs: list[HostProgram]) -> None:
    gemm, decode, reduce = programs
    (step,) = gemm.steps
    assert step.cluster == (2, 1, 1) and step.overlap and step.grid[0][0] == "min"  # type: ignore[index]
    assert [p.size for p in step.parameters].count(128) == 2, "two descriptors"
    assert [len(decode.steps), decode.steps[1].when[0], decode.limit > 0] == [2, "mul", True]  # type: ignore[index]
    assert reduce.steps[0].grid[0][0] == "min"  # type: ignore[index]
    for one, program in zip(harder, (gemm, decode, reduce), strict=True):
        caller = Caller(one.toolchain, one.code, one.symbol, one.signature, one.cubins[0])
        assert caller.difference(program, caller.drawn("yet another", 500, tame=True, near=program)) is None
    assert harder[2].derive() == reduce, "the same object gives the same program"


def test_a_program_with_one_thing_wrong_is_found(harder: list[Made], programs: list[HostProgram]) -> None:
    one, program = harder[0], programs[0]
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


def test_an_object_that_does_more_than_launch_has_no_plan(
    made: list[Made], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poorer = tmp_path / "poorer.c"
    poorer.write_text(recorder.SOURCE.read_text().replace("_cudaGetDevice(", "_cudaGetSomethingElse("))
    monkeypatch.setattr(recorder, "SOURCE", poorer)
    with pytest.raises(PlanError, match="does more than launch"):
        made[0].derive()


def test_the_device_code_tells_its_parameters(made: list[Made]) -> None:
    (kernel,) = elf.kernels(made[1].cubins[0])
    assert elf.kernel_parameters(made[1].cubins[0], kernel) == ((0, 24), (24, 8), (32, 24), (56, 4))


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
