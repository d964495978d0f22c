"""Commands in a folder with ``precast.toml``: they need neither manifests nor a cache, and the command line wins."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from precast.loader.resolve.cache import Cache
from tests.cli.satellites import need_command
from tests.helpers.builds import manifest, module
from tests.helpers.forks.forked_process import run

pytestmark = pytest.mark.usefixtures("without_torch")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a user, whose project file names its own store."""
    monkeypatch.delenv("PRECAST_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    module(tmp_path, "mine", "def add(n: int):\n    return compile_add(n)\n")
    manifest(tmp_path, {"mine:add": [1, 2]}, targets="[sm_90a, sm_100a]")
    write(tmp_path, 'manifests = "mine.yaml"', 'output = "out"', 'targets = "sm_90a"', 'store = "kept"', "jobs = 1")
    return tmp_path


def write(folder: Path, *lines: str) -> None:
    (folder / "precast.toml").write_text("\n".join(lines))


def precast(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(words, folder=folder)


def targets(cache: Path) -> list[str]:
    return sorted({str(a.target) for a in Cache(cache).op("user.add").artifacts})


@pytest.mark.slow
def test_no_command_needs_more_than_the_project_file(folder: Path) -> None:
    inner = folder / "notes"
    inner.mkdir()
    early = precast(folder, "list")
    assert (
        early.returncode == 2 and "out is not a cache, and precast.toml names it: run 'precast build'" in early.stderr
    )

    built = precast(inner, "build")
    assert (built.returncode, built.stdout.partition(":")[0]) == (0, "2 variants built, 0 reused"), built.stderr
    assert targets(folder / "out") == ["sm_90a"]
    assert list((folder / "kept").glob("??/*.record")) and not (folder / "xdg").joinpath("precast", "store").exists()

    for words, line in {
        ("plan",): "mine: 2 variants, 0 skipped",
        ("plan", "--explain"): "0 variants to build, 2 reused",
        ("check",): "2 of 2 artifacts present",
        ("list",): "mine: 2 artifacts of 1 op",
        ("store",): "kept: 2 records",
        ("wheel", "-o", "dist"): "dist/precast_cache_mine-",
    }.items():
        done = precast(folder, *words)
        assert done.returncode == 0 and line in done.stdout, (words, done.stdout, done.stderr)


@pytest.mark.slow
def test_explain_says_that_the_projects_cache_is_not_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It decides as ``loader.get`` does, which finds no project."""
    monkeypatch.setenv("PRECAST_CACHE_PATH", "")
    words = ("explain", "user.add", "n=1", "-t", "sm_90a")
    assert "note:" not in precast(folder, *words).stderr, "nothing is built yet"
    assert precast(folder, "build").returncode == 0
    done = precast(folder, *words)
    assert done.returncode == 1 and "note: out of precast.toml is not installed: PRECAST_CACHE_PATH=out" in done.stderr
    monkeypatch.setenv("PRECAST_CACHE_PATH", "out")
    assert precast(folder, *words).returncode == 0


def test_an_op_where_there_are_no_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECAST_CACHE_PATH", "")
    done = precast(tmp_path, "list", "--op", "nope")
    assert done.returncode == 1
    assert "no cache holds op 'nope', since there are no caches: install the wheel of one" in done.stderr


@pytest.mark.slow
def test_the_command_line_wins(folder: Path) -> None:
    built = precast(folder, "build", "-o", "other", "-t", "sm_100a", "--store", "mine-too")
    assert built.returncode == 0, built.stderr
    assert targets(folder / "other") == ["sm_100a"] and not (folder / "out").exists()
    assert (folder / "mine-too").is_dir() and not (folder / "kept").exists()


@pytest.mark.slow
def test_check_names_the_build_that_mends(folder: Path) -> None:
    assert precast(folder, "build", "-t", "sm_90a").returncode == 0
    manifest(folder, {"mine:add": [1, 2, 3]}, targets="[sm_90a, sm_100a]")
    done = precast(folder, "check")
    assert done.returncode == 1 and "2 of 3 artifacts present" in done.stdout
    assert "precast build\n" in f"{done.stdout}\n", done.stdout


def test_a_mistake_in_the_project_file_is_shown_with_its_line(folder: Path) -> None:
    write(folder, 'manifests = "mine.yaml"', "job = 3")
    for words in (("build",), ("plan",), ("check",), ("list",), ("store",)):
        done = precast(folder, *words)
        assert done.returncode == 2, words
        assert "precast.toml:2:1" in done.stderr and "did you mean 'jobs'?" in done.stderr
        assert "job = 3" in done.stderr, "the line itself is shown"


@pytest.mark.parametrize("words", [("build",), ("plan",), ("check",), ("verify",), ("wheel", "-o", "dist")])
def test_without_a_project_file_the_error_says_what_to_do(tmp_path: Path, words: tuple[str, ...]) -> None:
    need_command(words[0])
    done = precast(tmp_path, *words)
    text = " ".join(done.stderr.replace("│", " ").split())
    assert (
        done.returncode == 2
        and "there is no precast.toml in this folder or above it: 'precast init' writes one" in text
    )
