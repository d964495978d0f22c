"""``precast bench`` with times that are given in place of a GPU's: what it prints, writes and exits with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import pytest

from precast.cli import main
from precast.loader import session
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.machine.driver import CurrentDriver, Device
from precast.loader.machine.machine import Machines
from precast.loader.resolve.cache import Cache
from precast.measure.bench.report import Report
from precast.measure.on_gpu.launches import Launched, Lost
from precast.measure.timing.bench import Timing
from precast.measure.timing.ceilings import Ceilings
from tests.helpers.caches import Native, demo


class Given:
    """In place of the process that launches: the times of a test, in the order of what is asked."""

    timings: ClassVar[list[Timing]] = []
    most: ClassVar[Ceilings | None] = None
    asked: ClassVar[list[tuple[Any, ...]]] = []

    def __init__(self, cache: Path, seconds: float) -> None:
        type(self).asked = []

    def __enter__(self) -> Given:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def timed(self, op: str, key: str, problems: Any, *, launches: int, extras: Sequence[str]) -> tuple[Launched, ...]:
        self.asked.append((op, key, problems, tuple(extras)))
        return tuple(Launched(problem=timing.problem, timing=timing) for timing in self.timings)

    def ceilings(self, dtypes: Sequence[str]) -> Ceilings:
        if self.most is None:
            raise Lost("no torch here")
        return self.most


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache, on a machine whose driver knows one GPU."""
    (tmp_path / "native").mkdir()
    native = Native(tmp_path / "native")
    before = session.use(session.Session("", machines=Machines(driver=CurrentDriver(str(native.driver())))))
    monkeypatch.setattr("precast.measure.on_gpu.launches.Launches", Given)
    monkeypatch.setattr(Given, "most", Ceilings(bandwidth=4000.0, rates={"float32": 50.0}))
    monkeypatch.setattr(Given, "timings", [timing(10.0, bytes=32_000_000, flops=1000, peers={"b": 15.0, "a": 12.5})])
    yield demo(native).write(tmp_path / "demo")
    session.use(before)


def timing(us: float, **more: Any) -> Timing:
    return Timing(problem={"n": 8}, microseconds=us, spread=0.5, **more)


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run([str(word) for word in words])
    return int(ended.value.code or 0)


def test_the_table_says_what_was_measured_and_how_near_it_is(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("bench", place, "--op", "scale") == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "kernel", "config", "problem", "cold", "us", "+-", "warm", "us", "host", "us", "GB/s", "TFLOP/s", "share",
        "peer", "ratio",
    ]  # fmt: skip
    assert lines[-1].endswith("(4000 GB/s, float32 50 TFLOP/s)")
    cells = [cell for cell in lines[0].split("  ") if cell.strip()]
    assert cells[0].startswith("scale ")
    assert [cell.strip() for cell in cells[-8:]] == ["n=8", "10.00", "0.50", "3200", "0.0", "0.800", "a", "1.25"]


def test_the_measurements_go_to_tune_and_the_report_is_read_again(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("bench", place, "--op", "scale", "-o", tmp_path / "times.json", "--json") == 0
    report = Report.parse(json.loads(capsys.readouterr().out))
    keys = {row.key for row in report.rows}
    assert report.ceilings == Given.most and report.rounds == 3
    assert run("tune", "apply", place, tmp_path / "times.json") == 0
    (row,) = Cache(place).op("scale").tuning
    assert set(row.times) == keys and set(row.times.values()) == {10.0}
    assert not row.tilings, "the author of scale says nothing of tiles"


def test_the_measurements_say_how_variants_cut_a_problem(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = Tiling(tile={"n": 4}, at_once=132)
    asked = []

    def tiling(op: str, artifact: Artifact, device: Device) -> Tiling:
        asked.append((op, device.ordinal))
        return cut

    monkeypatch.setattr("precast.measure.launching.cases.tiling", tiling)
    assert run("bench", place, "--op", "scale", "-o", tmp_path / "times.json") == 0
    assert run("tune", "apply", place, tmp_path / "times.json") == 0
    (row,) = Cache(place).op("scale").tuning
    assert dict(row.tilings) == dict.fromkeys(row.times, cut) and set(asked) == {("scale", 0)}


def test_the_picture_is_drawn_where_there_is_a_roof(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("bench", place, "--op", "scale", "--svg", tmp_path / "roof.svg") == 0
    assert "circle" in {e.tag.partition("}")[2] for e in ElementTree.parse(tmp_path / "roof.svg").iter()}
    monkeypatch.setattr(Given, "most", None)
    assert run("bench", place, "--op", "scale", "--svg", tmp_path / "none.svg") == 0
    said = capsys.readouterr().err
    assert "none.svg is not drawn" in said and "were not measured: no torch here" in said
    assert not (tmp_path / "none.svg").exists()


def test_a_share_above_one_is_marked_and_explained(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Given, "timings", [timing(7.0, bytes=32_000_000)])
    assert run("bench", place, "--op", "scale") == 0
    out, err = capsys.readouterr()
    assert "1.143 !" in out
    assert "a share of 1.143: more than the GPU's peak: the declared cost is too high" in err


def test_what_is_asked_of_the_launching_process(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", place, "--op", "scale", "--rounds", 1, "--problem", "n=5"]
    assert run(*words) == 0
    every = list(Given.asked)
    assert {(str(problems), extras) for _, _, problems, extras in every} == {("[{'n': 5}]", ("warm", "host", "peer"))}
    key = every[0][1]
    assert run(*words, "--key", key[:10], "--no-peer", "--just-in-time") == 0
    assert [(asked[1], asked[3]) for asked in Given.asked] == [(key, ("warm", "host", "just_in_time"))]
    capsys.readouterr()


def test_where_takes_values_of_config_keys(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    artifacts = [a for a in Cache(place).op("scale").artifacts if str(a.target) == "sm_90a"]
    dtypes = {str(a.config["dtype"]) for a in artifacts}
    assert len(dtypes) > 1
    short = {"float16": "half", "bfloat16": "bf16", "float32": "float"}
    wanted = sorted(dtypes)[0]
    assert run("bench", place, "--op", "scale", "--rounds", 1, "--where", f"dtype={short[wanted]}") == 0
    keys = {asked[1] for asked in Given.asked}
    assert keys and keys <= {a.key for a in artifacts if a.config["dtype"] == wanted}
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--where", "dtipe=float32"], "no config key is named 'dtipe'; did you mean 'dtype'?"),
        (["--where", "dtype"], "is not KEY=VALUE: write it like dtype=bfloat16"),
        (["--where", "dtype=float64"], "no variant has dtype=float64: use one of"),
        (["--key", "f" * 20], "has a key that starts with ffff"),
        (["--key", "xyz"], "is not the beginning of a key"),
        (["--svg", "none/roof.svg"], "name a file in a folder that exists"),
        (["--rounds", "0"], "Invalid value for '--rounds'"),
    ],
)
def test_a_wrong_request_is_refused(
    place: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert run("bench", place, "--op", "scale", *words) == 2
    assert message in " ".join(capsys.readouterr().err.split())
