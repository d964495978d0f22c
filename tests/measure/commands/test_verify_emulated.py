"""``precast verify --emulate``: what it prints, records and refuses, with Python functions in place of an emulator."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from precast.build.store.store import Store
from precast.cli import main
from precast.cli.shared.output import checkout, installable
from precast.kernels.authoring.declare import Declaration
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.evidence import unproven
from precast.measure.checks.check import Check
from precast.measure.launching.cases import LeftOut, Selected
from precast.measure.verification.emulations import EMULATOR, EmulationOptions, compile_emulator
from precast.measure.verification.verifier import NotEmulated
from tests.helpers.caches import Native, demo

WRONG = "it raised EmulationFault: race: a read of shared memory (launch 0, warp 4, line 91 of the PTX)"


class Emulated:
    """In place of the emulating process: the checks of each artifact, by its key."""

    answers: ClassVar[dict[str, tuple[Check, ...] | NotEmulated]] = {}
    options: ClassVar[list[EmulationOptions]] = []

    def __init__(
        self, cache: Cache, store: Store, seconds: float, options: EmulationOptions, *, beside: int = 1
    ) -> None:
        self.options.append(options)

    def __enter__(self) -> Emulated:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def end(self) -> None:
        pass

    def checks(self, op: str, key: str, **how: Any) -> tuple[Check, ...]:
        answer = self.answers[key]
        if isinstance(answer, NotEmulated):
            raise answer
        return answer


def check(fault: str = "", left_out: str = "") -> Check:
    return Check(
        problem={"n": 5}, output="out", error=2.0 if fault else 0.5, fault=fault, scenario="first run", elements=10,
        left_out=left_out,
    )  # fmt: skip


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "native").mkdir()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("precast.measure.verification.emulations.Emulations", Emulated)
    monkeypatch.setattr("precast.measure.verification.emulations.compile_emulator", lambda: None)
    monkeypatch.setattr("precast.measure.verification.emulations.with_ptx", lambda cache, store, cases: cases)
    Emulated.options.clear()
    yield demo(Native(tmp_path / "native")).write(tmp_path / "demo")


@pytest.fixture
def given(place: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Give the first artifacts of the cache these results, and leave out the last; their keys."""

    def give(*answers: tuple[Check, ...] | NotEmulated) -> list[str]:
        artifacts = Cache(place).op("scale").artifacts[: len(answers)]
        declared = Declaration(
            op="scale", keys=(), problems=lambda config: [{"n": 5}], inputs=lambda *a, **k: {}, outputs=("out",),
            reference=lambda config, inputs: {},
        )  # fmt: skip

        def selected(cache: Cache, ops: Any, targets: Any) -> Iterator[Selected | LeftOut]:
            yield from (Selected("scale", a, declared) for a in artifacts if not targets or str(a.target) in targets)

        Emulated.answers = {artifact.key: answer for artifact, answer in zip(artifacts, answers, strict=True)}
        monkeypatch.setattr("precast.measure.launching.cases.selected", selected)
        return [artifact.key for artifact in artifacts]

    return give


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run([str(word) for word in words])
    return int(ended.value.code or 0)


def test_what_is_right_is_recorded_as_emulated_and_is_no_evidence_of_a_gpu(
    place: Path, given: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    given((check(), check(left_out="too large")), (check(),))
    assert run("verify", place, "--op", "scale", "--emulate", "--seeds", 4, "--seed", 2, "--record") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 variants verified by emulation, 0 left out"
    assert [str(s) for s in Emulated.options[0].schedules][:3] == [
        "schedule 1, delay 200", "schedule 2, delay 0", "schedule 3, delay 5000",
    ]  # fmt: skip
    one = next(artifact for artifact in Cache(place).op("scale").artifacts if artifact.evidence)
    (entry,) = one.evidence
    assert {name: entry[name] for name in ("check", "emulated", "seeds", "seed", "failed", "problems", "date")} == {
        "check": "emulate", "emulated": EMULATOR, "seeds": 4, "seed": 2, "failed": [], "problems": 1,
        "date": "2023-11-14T22:13:20Z",
    }  # fmt: skip
    assert "gpu" not in entry and "capability" not in entry
    assert unproven(one, one.target.capability) and not unproven(one, one.target.capability, emulated=True)


def test_a_fault_is_printed_with_the_command_that_repeats_it(
    place: Path, given: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    _, wrong = given((check(),), (check(WRONG),))
    assert run("verify", place, "--op", "scale", "--emulate", "--seeds", 2) == 1
    out = capsys.readouterr().out
    assert "line 91 of the PTX" in out
    (repeat,) = [line.removeprefix("to repeat it: ") for line in out.splitlines() if line.startswith("to repeat it: ")]
    words = shlex.split(repeat)
    assert words[2:8] == [str(place), "--op", "scale", "--key", wrong[:12], "--problem"]
    assert words[8:] == ["n=5", "--seed", "0", "--emulate", "--seeds", "2"]
    assert run(*words[1:]) == 1


def test_what_is_refused_is_counted_apart_from_what_is_wrong(
    place: Path, given: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    refused = NotEmulated("line 7 of the PTX: it is not emulated", "bar.red.popc.u32")
    _, key = given((check(),), refused)
    junit = tmp_path / "report.xml"
    assert run("verify", place, "--op", "scale", "--emulate", "--junit", junit) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "refused: bar.red.popc.u32 (1 variant)" in lines
    assert lines[-1] == "1 variant verified by emulation, 1 refused, 0 left out"
    assert 'failures="0" skipped="1"' in junit.read_text()
    assert run("verify", place, "--op", "scale", "--emulate", "--json") == 0
    report: Mapping[str, Any] = json.loads(capsys.readouterr().out)
    assert report["refused"][key].startswith("line 7 of the PTX") and report["variants"][key]["opcode"]
    given(refused)
    assert run("verify", place, "--op", "scale", "--emulate") == 1  # nothing was verified


def test_without_the_emulator_it_says_what_to_install(
    place: Path, given: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given((check(),))
    monkeypatch.setattr("precast.measure.verification.emulations.compile_emulator", compile_emulator)
    monkeypatch.setitem(sys.modules, "precast.emulator", None)
    assert run("verify", place, "--op", "scale", "--emulate") == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    command = installable("pip install 'precast[emulate]'", checkout())
    assert error == f"error: the emulator is not installed: {command} (PCB03)"


def test_without_torch_it_says_so_once(
    place: Path, given: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given((check(),), (check(),))
    monkeypatch.setattr("precast.measure.verification.emulations.compile_emulator", compile_emulator)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run("verify", place, "--op", "scale", "--emulate") == 1
    printed = capsys.readouterr()
    assert "wrong:" not in printed.out
    assert printed.err.strip().splitlines()[-1].startswith("error: torch is not installed")


def test_one_wrong_reference_prints_few_lines(
    place: Path, given: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of each variant the first failure; and what was not run is told from what was left out."""
    wrong = tuple(check(f"{number} values differ") for number in range(1, 15))
    given(wrong, (*wrong, check(left_out="too large")))
    assert run("verify", place, "--op", "scale", "--emulate") == 1
    lines = capsys.readouterr().out.splitlines()
    told = [line for line in lines if line.startswith("wrong: ")]
    assert len(told) == 2 and all("1 values differ (13 more failures)" in line for line in told) and len(lines) == 6
    assert "not run: first run: too large (1 variant)" in lines
    assert lines[-1] == "0 variants verified by emulation, 2 wrong, 0 left out"


def test_evidence_of_the_same_emulation_is_taken_over(
    place: Path, given: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    given((check(),), (check(),))
    assert run("verify", place, "--op", "scale", "--emulate", "--record") == 0
    Emulated.answers = {}  # to emulate one again would be an error
    capsys.readouterr()
    assert run("verify", place, "--op", "scale", "--emulate", "--known", place) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 variants verified by emulation, 2 verified before, 0 left out"
    given((check(),), (check(),))
    assert run("verify", place, "--op", "scale", "--emulate", "--known", place, "--seeds", 3) == 0
    assert "verified before" not in capsys.readouterr().out.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seeds", "3"], "add --emulate"),
        (["--most", "9"], "add --emulate"),
        (["-t", "sm_90a"], "add --emulate"),
        (["--emulate", "--sanitizer", "memcheck"], "leave out --emulate"),
        (["--emulate", "--small", "--record"], "needs all problems"),
    ],
)
def test_options_that_do_not_go_together(
    place: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verify", place, *words) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
