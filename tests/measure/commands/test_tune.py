"""``precast tune``: measuring with a stand-in for the GPU, modelling, pruning, and putting times into a cache."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from precast.build.measurements.tuning_file import Sizes, TuningFile
from precast.cli.main import app
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.values import replace
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import Native, artifact, demo
from tests.helpers.forks.forked_process import run
from tests.helpers.tuning.files import scale_file

ONE, TWO = (("n", 8),), (("n", 16),)
# Each candidate has inputs of its own, and what makes them does what its kernel would do to the process.
AUTHOR = """
import os, time
from precast.kernels import DType, kernel
from precast.measure.timing import timer


def cold(runs, device, *, launches):
    open(__file__ + ".log", "a").write("x")
    return [[2.0] for _ in runs]


timer.cold = cold
timer.once = lambda run, device: 2.0


def inputs(config, problem, *, device, seed):
    if config["threads"] == 32:
        os.kill(os.getpid(), 11)
    if config["threads"] == 64:
        time.sleep(600)
    if problem["n"] % 8:
        raise ValueError("n must be divisible by 8")
    return {"x": 1}


@kernel(
    op="scale", problems=lambda config: [{"n": 8}, {"n": 9}], inputs=inputs, outputs=["x"], workspace=["x"],
    reference=lambda config, values: {"x": values["x"]},
)
def scale(dtype: DType, layout: str = "row", threads: int = 128): ...
"""
MANIFEST = """
version: 1
name: demo
targets: [sm_90a]
%s
kernels:
  - compile: "acme_tuned:scale"
    config: {dtype: float32}
    tuned: {threads: [128, 256, 32, 64]}
    problems: [{n: [8, 9]}]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of four candidates, its manifest and its author's module, where the driver knows one GPU."""
    native = Native(tmp_path)
    writer = demo(native)
    listed = writer.ops["scale"]
    rows = [
        replace(
            artifact(listed.artifacts[rank].blob, {"dtype": "float32", "layout": "row", "threads": threads}),
            provenance={"function": "acme_tuned:scale", "registered": False},
            rank=rank,
        )
        for rank, threads in enumerate((128, 256, 32, 64))
    ]
    writer.ops["scale"] = OpIndex.of(op="scale", keys=listed.keys, doc="", artifacts=tuple(rows))
    writer.write(tmp_path / "cache")
    (tmp_path / "acme_tuned.py").write_text(AUTHOR)
    (tmp_path / "m.yaml").write_text(MANIFEST % "tuning: h200.json")
    (tmp_path / "libcuda.so.1").symlink_to(native.driver())
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def precast(*words: str) -> subprocess.CompletedProcess[str]:
    return run(words)


@pytest.mark.slow
def test_candidates_that_fault_hang_or_refuse_cost_themselves_alone_and_a_second_run_goes_on(folder: Path) -> None:
    measure = ("tune", "measure", "m.yaml", "--cache", "cache", "--no-check", "--timeout", "5", "--json")
    done = precast(*measure)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    assert (told["file"], told["measured"], told["known"]) == ("h200.json", 2, 0)
    assert told["gpu"] == {
        "name": "Fake Hopper",
        "capability": "9.0",
        "driver": told["gpu"]["driver"],
        "date": "2023-11-14T22:13:20Z",
    }
    text = "\n".join(told["left_out"])
    assert "{threads: 32}: the launching process was ended by SIGSEGV" in text
    assert "{threads: 64}: no answer in 5 s" in text
    assert "{threads: 128} at n=9: ValueError: n must be divisible by 8" in text
    assert "[2/2] scale({dtype: float32, layout: row}) for sm_90a at n=9: no candidate has a time" in done.stderr
    (group,) = TuningFile.decode((folder / "h200.json").read_bytes()).groups
    assert {(c.tuned["threads"], len(c.times)) for c in group.candidates} == {(128, 1), (256, 1)}
    launched = (folder / "acme_tuned.py.log").stat().st_size
    again = precast(*measure, "--problem", "n=8", "--problem", "n=16", "--where", "dtype=float32", "--op", "scale")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["measured"] == 2 and json.loads(again.stdout)["known"] == 2
    assert (folder / "acme_tuned.py.log").stat().st_size == launched + 4, "n=8 was not launched again"


def test_a_file_of_either_kind_is_put_into_a_cache(folder: Path) -> None:
    (folder / "t.json").write_bytes(scale_file({128: {ONE: 1.0}, 256: {ONE: 2.0}}, dtype="float32").encode())
    done = CliRunner().invoke(app, ["tune", "apply", "cache", "t.json"], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.output.splitlines() == [
        "t.json: 2 measured times of 2 variants; 2 of these were measured on an earlier build",
        "scale: 2 measured times",
    ]
    assert [sorted(row.times.values()) for row in Cache(folder / "cache").op("scale").tuning] == [[1.0, 2.0]]


def test_a_kernel_without_tiles_has_no_modelled_times(folder: Path) -> None:
    done = precast("tune", "model", "m.yaml", "--cache", "cache", "--gpu", "H200", "--json")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)
    assert result["modelled"] == 0 and result["gpu"]["name"] == "NVIDIA H200, modelled"
    assert result["left_out"] == [
        "scale({dtype: float32, layout: row}) for sm_90a: its kernel declares no tile or no cost"
    ]
    assert not (folder / "h200.json").exists()


def test_pruning_prints_lines_for_the_manifest(folder: Path) -> None:
    """The first choice stays although it is slow, and what has no time stays as well."""
    times: dict[int, dict[Sizes, float]] = {
        128: {ONE: 9.0, TWO: 9.0},
        256: {ONE: 1.0, TWO: 1.02},
        64: {ONE: 1.01, TWO: 1.0},
    }
    (folder / "h200.json").write_bytes(scale_file(times, dtype="float32").encode())
    words = ["tune", "prune", "m.yaml", "--cache", "cache"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "exclude" not in done.output and "# 0 of 4 variants can go" in done.output
    strict = CliRunner().invoke(app, [*words, "--within", "0"], catch_exceptions=False)
    assert "exclude" not in strict.output
    done = CliRunner().invoke(app, [*words, "--cover"], catch_exceptions=False)
    lines = done.output.splitlines()
    assert lines[0] == "# scale({dtype: float32, layout: row}) for sm_90a: 3 of 4 stay, judged by 2 problems"
    assert lines[1:4] == ["# m.yaml:7:5", "exclude:", "  - {threads: 256}"]
    assert lines[4].startswith("# 1 of 4 variants can go, which saves ")
    machine = json.loads(CliRunner().invoke(app, [*words, "--cover", "--json"], catch_exceptions=False).output)
    assert machine["contests"][0]["dropped"] == [{"threads": 256}] and machine["stored"] > 0
    manifest = (folder / "m.yaml").read_text()
    (folder / "m.yaml").write_text(manifest + "    " + "\n    ".join(lines[2:4]) + "\n")
    again = CliRunner().invoke(app, [*words, "--cover"], catch_exceptions=False)
    assert "# 0 of 3 variants can go" in again.output, "the lines are a manifest's"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["measure", "m.yaml", "-o", "t.json"], "Missing option '--cache'"),
        (["model", "m.yaml", "--cache", "cache"], "Missing option '--gpu'"),
        (["model", "m.yaml", "--cache", "cache", "--gpu", "H2"], "did you mean 'H20'?"),
        (["apply", "cache"], "Missing argument 'FILE...'"),
        (["measure", "m.yaml", "--cache", "cache", "--cover"], "No such option: --cover"),
        (["mesure", "m.yaml"], "No such command 'mesure'; did you mean 'measure'?"),
        (["measure", "m.yaml", "--cache", "cache", "-o", "no/t.json"], "name a file in a folder that exists"),
        (["measure", "none.yaml", "--cache", "cache", "-o", "t.json"], "none.yaml:1:1: cannot be read"),
        (["measure", "plain.yaml", "--cache", "cache"], "list 0 files under 'tuning': name one with --output"),
        (["prune", "plain.yaml", "--cache", "cache"], "list 0 files under 'tuning': name one with --times"),
        (["prune", "m.yaml", "--cache", "cache", "--where", "dtype"], "write it like dtype=bfloat16"),
        (["prune", "m.yaml", "--cache", "cache", "--where", "dtypes=x"], "did you mean 'dtype'?"),
        (["prune", "m.yaml", "--cache", "cache", "--op", "skale"], "has no op 'skale'; did you mean 'scale'?"),
        (["measure", "m.yaml", "--cache", "cache", "--problem", "n"], "'n' is not a problem"),
    ],
)
def test_a_wrong_request_is_refused(
    folder: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from precast.cli import main

    monkeypatch.setenv("COLUMNS", "200")
    (folder / "plain.yaml").write_text(MANIFEST % "")
    with pytest.raises(SystemExit) as ended:
        main.run(["tune", *words])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, ""), err
    assert message in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err
