"""``precast verify`` with functions on the CPU in place of kernels: what it prints, writes and exits with."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace as replaced
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precast.cli import main
from precast.kernels.authoring.declare import Declaration, Tolerance
from precast.loader import session
from precast.loader.contract.values import replace
from precast.loader.machine.driver import CurrentDriver, Device
from precast.loader.machine.machine import Machines
from precast.loader.resolve.cache import Cache
from precast.measure.annotate import add_evidence
from precast.measure.checks.check import Check
from precast.measure.checks.verify import verify
from precast.measure.commands.shared.junit import ReportedCase, report
from precast.measure.launching.cases import Case, LeftOut
from precast.measure.verification.evidence import EarlierEvidence
from precast.measure.verification.verifier import Verified, worst_of
from tests.helpers.caches import Native, demo


def inputs(config: Any, problem: Mapping[str, int], *, device: Any, seed: int) -> dict[str, Any]:
    draw = torch.Generator(device=device).manual_seed(seed)
    return {"x": torch.randn(problem["n"], generator=draw, device=device), "out": torch.empty(problem["n"])}


DECLARATION = Declaration(
    op="scale",
    keys=(),
    problems=lambda config: [{"n": 0}, {"n": 9}, {"n": 5}, {"n": 7}],
    inputs=inputs,
    outputs=("out",),
    reference=lambda config, values: {"out": values["x"].double() * 2},
    tolerance=lambda config: Tolerance(rtol=1e-6, atol=0.0),
)


def right(x: Any, out: Any) -> None:
    torch.mul(x, 2, out=out)


def wrong_at_a_tail(x: Any, out: Any) -> None:
    out[: len(x) // 2 * 2] = x[: len(x) // 2 * 2] * 2


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache, on a machine whose driver knows one GPU."""
    native = Native(tmp_path / "native")
    (tmp_path / "native").mkdir(exist_ok=True)
    before = session.use(session.Session("", machines=Machines(driver=CurrentDriver(str(native.driver())))))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.setenv("COLUMNS", "200")
    yield demo(native).write(tmp_path / "demo")
    session.use(before)


class OnTheCpu:
    """In place of the process that launches: Python functions, here, by the key of the artifact."""

    functions: ClassVar[dict[str, Callable[..., None]]] = {}
    declaration = DECLARATION
    held: ClassVar[set[OnTheCpu]] = set()
    """Those that hold memory: they were asked, and not ended since."""

    def __init__(self, cache: Path, seconds: float) -> None:
        pass

    def __enter__(self) -> OnTheCpu:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        self.held.discard(self)

    def checks(
        self,
        op: str,
        key: str,
        *,
        seed: int,
        problem: Mapping[str, int] | None,
        most: int | None,
        huge: bool | None = None,
    ) -> tuple[Check, ...]:
        self.held.add(self)
        function, huge = self.functions[key], huge is not False
        return tuple(
            verify(function, self.declaration, {}, device="cpu", seed=seed, problem=problem, most=most, huge=huge)
        )


@pytest.fixture
def launching(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let Python functions stand for the kernels of a cache, one after the other."""
    monkeypatch.setattr("precast.measure.on_gpu.launches.Launches", OnTheCpu)

    def give(*functions: Callable[..., None]) -> None:
        def cases(cache: Cache, device: Device, ops: Any) -> Iterator[Case | LeftOut]:
            artifacts = cache.op("scale").artifacts
            for artifact, function in zip(artifacts, functions, strict=False):
                OnTheCpu.functions[artifact.key] = function
                yield Case("scale", artifact, OnTheCpu.declaration, function)  # type: ignore[arg-type]
            yield LeftOut("scale", artifacts[-1], "built for another GPU")

        monkeypatch.setattr("precast.measure.launching.cases.cases", cases)

    return give


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run([str(word) for word in words])
    return int(ended.value.code or 0)


def test_without_a_gpu_the_emulator_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session.use(session.Session("", machines=Machines(driver=CurrentDriver("libcuda-of-no-machine.so"))))
    assert run("verify", place) == 1
    assert "or add --emulate, which needs no GPU (PCL11)" in capsys.readouterr().err


def test_what_is_right_passes_and_is_recorded(
    place: Path, launching: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    launching(right, right)
    assert run("verify", place, "--op", "scale", "--record", "--seed", 4) == 0
    left_out, last = capsys.readouterr().out.splitlines()
    assert left_out == "not run: on a second stream: there are no streams on the CPU (2 variants)"
    assert last.startswith("2 variants verified on ")
    recorded = [a.evidence[0] for a in Cache(place).op("scale").artifacts if a.evidence]
    assert len(recorded) == 2
    (entry, _) = recorded
    assert {name: entry[name] for name in ("check", "date", "seed", "problems", "failed")} == {
        "check": "verify", "date": "2023-11-14T22:13:20Z", "seed": 4, "problems": 4, "failed": [],
    }  # fmt: skip
    assert entry["gpu"] and entry["capability"] and entry["driver"]
    assert entry["worst"] < 1 and "second run" in entry["scenarios"]


def test_what_is_wrong_is_told_with_the_smallest_case_and_its_command(
    place: Path, launching: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    launching(right, wrong_at_a_tail)
    assert run("verify", place, "--seed", 3) == 1
    out = capsys.readouterr().out
    (repeat,) = [line.removeprefix("to repeat it: ") for line in out.splitlines() if line.startswith("to repeat it: ")]
    (smallest,) = [line for line in out.splitlines() if line.startswith("smallest failing case: ")]
    assert "out at n=5, first run" in smallest and "1 left unwritten or NaN" in smallest
    program, *words = shlex.split(repeat)
    key = Cache(place).op("scale").artifacts[1].key
    assert program == "precast" and words[:2] == ["verify", str(place)]
    assert words[2:] == ["--op", "scale", "--key", key[:12], "--problem", "n=5", "--seed", "3"]
    assert run(*words) == 1
    again = capsys.readouterr().out
    assert smallest in again.splitlines() and "n=9" not in again
    last = [text.splitlines()[-1] for text in (out, again)]
    assert [line.partition(" verified on ")[0] for line in last] == ["1 variant", "0 variants"]
    assert all(", 1 wrong, " in line for line in last)


def test_what_another_cache_has_evidence_of_is_not_launched_again(
    place: Path, launching: Callable[..., None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the two variants of the older cache one was wrong; the newer one is the same cache without evidence."""
    rebuilt = Path(shutil.copytree(place, place.parent / "rebuilt"))
    launching(right, wrong_at_a_tail)
    assert run("verify", place, "--op", "scale", "--record") == 1
    launched: list[str] = []
    of = OnTheCpu.checks

    def noting(self: OnTheCpu, op: str, key: str, **options: Any) -> tuple[Check, ...]:
        launched.append(key)
        return of(self, op, key, **options)

    monkeypatch.setattr(OnTheCpu, "checks", noting)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    launching(right, right)
    capsys.readouterr()
    assert run("verify", rebuilt, "--op", "scale", "--known", place, "--record") == 0
    assert ", 1 verified before, " in capsys.readouterr().out
    first, second = Cache(rebuilt).op("scale").artifacts[:2]
    assert launched == [second.key]
    assert first.evidence == Cache(place).op("scale").artifacts[0].evidence
    assert second.evidence[0]["date"] == "2027-01-15T08:00:00Z"


@pytest.mark.parametrize("change", ["gpu", "blob", "config"])
def test_evidence_of_another_gpu_code_or_config_does_not_count(place: Path, change: str) -> None:
    cache = Cache(place)
    one = cache.op("scale").artifacts[0]
    gpu = "NVIDIA H200"
    add_evidence(cache, {"scale": {one.key: {"check": "verify", "gpu": gpu, "failed": []}}})
    known = EarlierEvidence(Cache(place), {"gpu": "NVIDIA H100" if change == "gpu" else gpu})
    other = {
        "gpu": one,
        "blob": replace(one, blob=replace(one.blob, sha256="0" * 64)),
        "config": replace(one, config={**one.config, "more": 1}),
    }[change]
    assert known.of("scale", other) is None
    assert EarlierEvidence(Cache(place), {"gpu": gpu}).of("scale", replace(one, key="f" * 64)) is not None


def test_known_goes_with_all_problems(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", place, "--known", place, "--small") == 2
    assert "leave out --problem, --small and --sanitizer" in capsys.readouterr().err


def test_of_several_wrong_variants_the_one_with_the_smallest_problem_is_told() -> None:
    def failed(*sizes: int) -> list[Check]:
        return [Check(problem={"n": n}, output="x", error=2.0, fault="wrong", elements=n) for n in sizes]

    found = [
        Verified(op="scale", key=key, name=key, checks=failed(*n)) for key, *n in (("a", 9), ("b", 7, 5), ("c", 6))
    ]
    worst = worst_of([*found, Verified(op="scale", key="d", name="d", left_out="no GPU")])
    assert worst is not None and (worst[0].key, worst[1].problem) == ("b", {"n": 5})
    assert worst_of([]) is None


def test_reports_for_machines(place: Path, launching: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    launching(wrong_at_a_tail, right)
    assert run("verify", place, "--json", "--junit", place.parent / "report.xml") == 1
    printed = json.loads(capsys.readouterr().out)
    assert [len(entry["failed"]) > 0 for entry in printed["evidence"]["scale"].values()].count(True) == 1
    assert list(printed["left_out"].values()) == ["built for another GPU"]
    assert "--problem n=5" in printed["smallest"]["repeat"]
    root = ElementTree.parse(place.parent / "report.xml").getroot()
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3", "failures": "1", "skipped": "1",
    }  # fmt: skip
    (failure,) = root.iter("failure")
    assert failure.text and "out at n=5, first run" in failure.text


def test_a_problem_of_other_sizes_and_a_key_that_is_not_there(
    place: Path, launching: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    launching(right)
    assert run("verify", place, "--problem", "m=5") == 1
    assert "its problems have the sizes n, not m" in capsys.readouterr().err
    assert run("verify", place, "--key", "f" * 64) == 2
    assert "has no object whose key starts with ffff" in capsys.readouterr().err


def test_several_at_once_say_what_one_after_the_other_says(
    place: Path, launching: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    launching(right, wrong_at_a_tail)
    assert run("verify", place, "--json") == 1
    one = capsys.readouterr().out
    assert run("verify", place, "--json", "-j", "3") == 1
    assert capsys.readouterr().out == one


def test_variants_are_verified_beside_each_other_and_large_problems_alone(
    place: Path, launching: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two functions meet at each problem, but for the large one, at which neither may wait for the other."""
    together, never = threading.Barrier(2), threading.Barrier(2)
    large: list[str] = []

    def meeting(name: str) -> Callable[[Any, Any], None]:
        def function(x: Any, out: Any) -> None:
            if len(x) == 100:
                large.append(name)
                assert len(OnTheCpu.held) == 1, "one that rests holds memory that a large problem needs"
                with pytest.raises(threading.BrokenBarrierError):
                    never.wait(1)
                right(x, out)
            else:
                together.wait(60)
                right(x, out)

        return function

    monkeypatch.setattr(OnTheCpu, "declaration", replaced(DECLARATION, large=lambda config: {"n": 100}))
    launching(meeting("a"), meeting("b"))
    assert run("verify", place, "--json", "-j", "2") == 0
    found = json.loads(capsys.readouterr().out)["evidence"]["scale"]
    assert [entry["problems"] for entry in found.values()] == [5, 5] and set(large) == {"a", "b"}


def test_what_found_no_memory_beside_others_is_launched_alone(
    place: Path, launching: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    tries: list[int] = []

    def hungry(x: Any, out: Any) -> None:
        tries.append(len(x))
        if len(tries) == 1:
            raise torch.cuda.OutOfMemoryError("the others have it")
        right(x, out)

    launching(hungry, right)
    assert run("verify", place, "-j", "2") == 0
    tries.clear()
    assert run("verify", place) == 1
    assert "OutOfMemoryError: the others have it" in capsys.readouterr().out


def test_a_sanitizer_that_is_missing_is_said(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(place.parent))
    assert run("verify", place, "--sanitizer", "memcheck") == 1
    assert "install the CUDA toolkit, set CUDA_HOME" in capsys.readouterr().err


def test_a_sanitizer_runs_the_same_command_for_small_problems(
    place: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A stand-in for the tool prints what it is called with, and finds something."""
    program = place.parent / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" cached=$PYTORCH_NO_CUDA_MEMORY_CACHING\nexit 86\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("CUDA_HOME", str(place.parent))
    words = ["verify", str(place), "--sanitizer", "racecheck", "--seed", "5"]
    monkeypatch.setattr("sys.argv", ["precast", *words])
    assert run(*words) == 1
    out, err = capfd.readouterr()
    assert out.startswith("--tool racecheck --error-exitcode 86 --target-processes all ")
    assert out.endswith(f"-m precast.cli.main verify {place} --seed 5 --small cached=1\n")
    assert "racecheck reported the errors above" in err


@given(st.text(), st.text(), st.text())
def test_any_text_stands_in_a_report(name: str, failure: str, reason: str) -> None:
    cases = [
        ReportedCase(group=name, name=name, failures=[failure]),
        ReportedCase(group="b", name=name, skipped=reason),
    ]
    root = ElementTree.fromstring(report(name, cases, {name: failure}))
    assert len(list(root.iter("testcase"))) == 2 and len(list(root.iter("failure"))) == 1
