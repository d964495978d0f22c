"""Requests that are wrong: one clear message, exit status 2, no traceback, and nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.cli import main
from precast.loader.contract.format.target import Capability
from precast.loader.machine.driver import Device
from tests.cli.satellites import need_command
from tests.helpers.caches import Native, demo

MANIFEST = """
version: 1
name: acme
targets: [sm_90a]
kernels:
  - kernel: scale
    config: {dtype: bf16}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of each request; ``m.yaml`` and nothing else."""
    (tmp_path / "m.yaml").write_text(MANIFEST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRECAST_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("PRECAST_REMOTE_CACHE", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cache that no test changes."""
    where = tmp_path_factory.mktemp("cache")
    return str(demo(Native(where)).write(where / "demo"))


def refused(capsys: pytest.CaptureFixture[str], *words: str, status: int = 2) -> str:
    """What a request that is refused prints."""
    need_command(words[0])
    with pytest.raises(SystemExit) as ended:
        main.run(words)
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (status, ""), err
    assert "Traceback" not in err
    return err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-t", "sm_999"], "error: there is no profile of a GPU for sm_999: build for one of sm_80"),
        (["-t", "hopper"], "error: 'hopper' is not a target"),
        (["-t", ""], "error: '' is not a target"),
        (["-t", "sm_80"], "error: no manifest builds for sm_80: choose one of sm_90a"),
        (["--shard", "3/2"], "error: '3/2' is not a shard: write I/N"),
        (["--shard", "1"], "error: '1' is not a shard"),
        (["--profile", "H2"], "error: there is no profile 'H2'; did you mean 'H20'?"),
        (["--executor", "dusk"], "'dusk' is not one of 'local', 'dask'"),
        (["--executor", "dask"], "--executor dask and --scheduler ADDRESS go together"),
        (["--scheduler", "tcp://h:1"], "--executor dask and --scheduler ADDRESS go together"),
        (["--executor", "dask", "--scheduler", "nonsense"], "'nonsense' is not an address: write it like tcp://"),
        (["--executor", "dask", "--scheduler", "tcp://host"], "'tcp://host' is not an address"),
        (["--remote-cache", "nonsense"], "error: 'nonsense' is not the URL of a folder"),
        (["--remote-cache", "foo://x"], "foo:// is not a supported scheme"),
        (["--name", "My Cache"], "error: 'My Cache' is not a name"),
        (["--jobs", "many"], "Invalid value for '--jobs'"),
        (["--jobs", "-1"], "Invalid value for '--jobs'"),
        (["--jobs", "99999999"], "Invalid value for '--jobs'"),
        (["--timeout", "0"], "Invalid value for '--timeout'"),
        (["--timeout", "nan"], "--timeout"),
        (["--timeout", "inf"], "--timeout is at most"),
        (["--memory", "9" * 30], "--memory is at most"),
        (["--tmeout", "3"], "No such option: --tmeout"),
        (["--store", "m.yaml"], "error: m.yaml cannot be created, because m.yaml is not a folder"),
    ],
)
def test_build(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    if "--remote-cache" in words:
        pytest.importorskip("precast.publish")
    said = refused(capsys, "build", "m.yaml", "-o", "cache", *words)
    assert message in said
    assert "importing its kernels" not in said or message.startswith(("error: no manifest", "error: 'My"))
    assert not (folder / "cache").exists()


def test_build_needs_a_manifest_that_can_be_read(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "none.yaml:1:1: cannot be read" in refused(capsys, "build", "none.yaml", "-o", "cache")
    assert "name at least one manifest" in refused(capsys, "build", "-o", "cache")
    assert "name the folder of the cache with -o" in refused(capsys, "build", "m.yaml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verify", "--op", "skale"], "error: cache 'demo' has no op 'skale'; did you mean 'scale'?"),
        (["verify", "--seed", "-1"], "Invalid value for '--seed'"),
        (["verify", "--seed", "9" * 30], "is too large"),
        (["verify", "--key", "xyz"], "is not the beginning of a key"),
        (["verify", "--junit", "none/report.xml"], "none/report.xml: name a file in a folder that exists"),
        (["verify", "--record", "--problem", "n=5"], "--record needs all problems"),
        (["verify", "--record", "--sanitizer", "memcheck"], "--record needs all problems"),
        (["verify", "--sanitizer", "initcheck"], "'initcheck' is not one of 'memcheck', 'racecheck', 'synccheck'"),
        *(
            (["verify", "--problem", problem], "is not a problem: write each name once with its size")
            for problem in ("m", "m=", "=4", "m=4,", "m=-1", "m=4.5", "m=4,m=5", f"m={'9' * 5000}", "m=²")
        ),
        (["bench", "--op", "skale"], "error: cache 'demo' has no op 'skale'; did you mean 'scale'?"),
        (["bench", "-o", "none/times.json"], "none/times.json: name a file in a folder that exists"),
        (["bench", "-o", "."], "name a file in a folder that exists"),
        *(
            (["bench", "--problem", problem], "is not a problem: write each name once with its size")
            for problem in ("", "m", "m=", "=4", "m=4,", "m=-1", "m=4.5", "m=4,m=5", f"m={'9' * 5000}", "m=²")
        ),
        (["bench", "--problem", ",".join(f"m{i}=1" for i in range(40))], "is not a problem: write each name"),
    ],
)
def test_what_needs_a_gpu_refuses_a_wrong_request_without_one(
    folder: Path, cache: str, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    name, *options = words
    assert message in refused(capsys, name, cache, *options)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read (No such file or directory)"), ("[", "not JSON"), ("{}", "in 'times.json.format'")],
)
def test_tune(folder: Path, cache: str, capsys: pytest.CaptureFixture[str], content: str | None, message: str) -> None:
    if content is not None:
        (folder / "times.json").write_text(content)
    assert message in refused(capsys, "tune", "apply", cache, "times.json")


@pytest.mark.parametrize(
    "words",
    [
        ["build", "m.yaml"],
        ["merge", "{cache}"],
        ["wheel", "{cache}"],
        ["export", "{cache}", "scale"],
        ["bundle", "none.whl"],
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("output", ["m.yaml", "m.yaml/below"])
def test_an_output_folder_that_cannot_be_used_is_a_wrong_request(
    folder: Path, cache: str, capsys: pytest.CaptureFixture[str], words: list[str], output: str
) -> None:
    """It is refused before anything is read, compiled or downloaded."""
    said = refused(capsys, *(word.format(cache=cache) for word in words), "-o", output)
    assert "m.yaml is not a folder: choose another path" in said
    assert (folder / "m.yaml").read_text() == MANIFEST


@pytest.mark.parametrize("name", ["verify", "bench"])
def test_a_folder_that_is_no_cache_fails(folder: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert "error: none is not a folder that can be read" in refused(capsys, name, "none", status=1)


def test_doctor_and_schema(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unexpected extra argument" in refused(capsys, "doctor", "x")
    assert "'wheel' is not one of 'manifest'" in refused(capsys, "schema", "wheel")
    assert "Missing argument" in refused(capsys, "schema")


@pytest.mark.parametrize(
    ("name", "kept"), [("verify", "no evidence was written"), ("bench", "no measurements were written")]
)
def test_ctrl_c_during_measurements_says_what_is_kept(
    folder: Path, cache: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, kept: str
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    need_command(name)
    monkeypatch.setattr("precast.measure.launching.cases.this_device", interrupted)
    assert refused(capsys, name, cache, status=130) == f"interrupted: {kept}\n"


@pytest.mark.parametrize("name", ["verify", "bench"])
def test_a_gpu_that_runs_nothing_of_a_cache_is_a_failure_with_every_reason(
    folder: Path, cache: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    need_command(name)
    other = Device(ordinal=0, name="NVIDIA RTX", capability=Capability(12, 0))
    monkeypatch.setattr("precast.measure.launching.cases.this_device", lambda: other)
    with pytest.raises(SystemExit) as ended:
        main.run([name, cache, "--op", "twice"])
    out, err = capsys.readouterr()
    assert ended.value.code == 1
    assert out.startswith("0 ") and "NVIDIA RTX" in out
    assert err.splitlines() == [
        "opening the artifacts of 1 op",
        "[1/1] twice for sm_90: left out: built for sm_90, this GPU is 12.0",
    ]
