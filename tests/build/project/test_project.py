"""The project file: what it sets, where it is found, and which content is refused, with the line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from precast.build.errors import ManifestError
from precast.build.project.project import find_project, parse_project, read_project

FILE = Path("precast.toml")


def test_every_key(tmp_path: Path) -> None:
    text = b'# ours\nmanifests = [\n  "a.yaml",  # one\n  "b.yaml",\n]\noutput = "out"\n'
    text += b'targets = "sm_90a"\nstore = "../s"\njobs = 8\n'
    project = parse_project(text, tmp_path / FILE)
    assert project.manifests == (tmp_path / "a.yaml", tmp_path / "b.yaml")
    assert (project.output, project.store) == (tmp_path / "out", tmp_path / "../s")
    assert (project.targets, project.jobs) == (("sm_90a",), 8)


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_a_file_as_windows_writes_it(ending: str) -> None:
    text = "\ufeff" + ending.join(['manifests = "a.yaml"', "jobs = 8"])
    assert parse_project(text.encode(), FILE).jobs == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "1:1: 'manifests' is missing: add it"),
        (b'manifests = "a"\n\n  outptu = "c"\n', "3:3: unknown key 'outptu'; did you mean 'output'?"),
        (b'manifests = """\noutput"""\ntarget = 1', "3:1: unknown key 'target'; did you mean 'targets'?"),
        (b'manifests = "a"\ntargets = [\n "sm_90a", "sm_9"]', "2:1: 'sm_9' is not a target"),
        (b'manifests = "a"\ntargets = "sm_999"', "2:1: there is no profile of a GPU for sm_999"),
        (b"manifests = []", "1:1: an empty list"),
        (b'manifests = ["a", "a"]', "1:1: 'a' is listed twice"),
        (b"manifests = 1", "1:1: expected text, got an integer"),
        (b"manifests = 2020-01-01", "1:1: a date or a time"),
        (b'manifests = "a\\u0000"', "1:1: the character U+0000 is in a text"),
        (b'manifests = "a"\noutput = " "', "2:1: an empty path"),
        (b'manifests = "a"\njobs = true', "2:1: 'jobs' is a number from 0 to 1024"),
        (b'manifests = "a"\njobs = 2000', "2:1: 'jobs' is a number from 0 to 1024"),
        (b'manifests = "a"\n[tool]\nx = 1', "2:1: a project file has no tables"),
        (b'manifests = "a"\noutput.x = 1', "2:1: expected text, got a mapping"),
        (b'manifests = "a"\nmanifests = "b"', "2:1: not TOML"),
        (b'manifests = "a"\noutput =', "2:1: not TOML"),
        (b'manifests = "a', "1:1: not TOML"),
        (b"x = " + b"[" * 5000, "1:1: not TOML"),
        (b"x = " + b"[" * 40 + b"]" * 40, "1:1: nests deeper than 16 levels"),
        (b"x = " + b"9" * 5000, "1:1: not TOML"),
        (b"manifests = '\xff'", "1:1: not UTF-8 text"),
        (b"#" * 20_000, "1:1: 20000 bytes, more than the 16384"),
        (b"\n" * 500, "1:1: 501 lines, more than the 400"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(text: bytes, message: str) -> None:
    with pytest.raises(ManifestError) as refused:
        parse_project(text, FILE)
    assert str(refused.value).startswith(f"precast.toml:{message}"), str(refused.value)
    assert len(str(refused.value)) < 300


def test_a_pipe_or_a_folder_of_that_name_is_refused(tmp_path: Path) -> None:
    """A pipe would block for ever."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(ManifestError, match="cannot be read"):
            read_project(tmp_path / name)


def test_it_is_found_from_a_folder_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / FILE).write_text('manifests = "norms.yaml"')
    monkeypatch.chdir(tmp_path / "a" / "b")
    project = find_project(Path.cwd())
    assert project is not None and project.manifests == (Path("../../norms.yaml"),)
    (tmp_path / "a" / FILE).write_text('manifests = "nearer.yaml"')
    nearer = find_project(Path.cwd())
    assert nearer is not None and nearer.manifests == (Path("../nearer.yaml"),)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_one_of_another_user_in_a_folder_above_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in /tmp: a build imports what it names. In its own folder, and where both have one owner, it is used."""
    below = tmp_path / "mine"
    below.mkdir()
    (tmp_path / FILE).write_text('manifests = "norms.yaml"')
    os.chown(tmp_path / FILE, 12345, 12345)
    monkeypatch.chdir(below)
    with pytest.raises(ManifestError, match="it belongs to another user"):
        find_project(Path.cwd())
    os.chown(below, 12345, 12345)
    assert find_project(Path.cwd()) is not None
    os.chown(below, 0, 0)
    monkeypatch.chdir(tmp_path)
    assert find_project(Path.cwd()) is not None
