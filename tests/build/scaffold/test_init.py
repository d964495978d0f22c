"""``precast init``: what it writes, the name that a folder gives, and that nothing that exists is touched."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from precast.build.project.project import FIELDS, read_project
from precast.build.scaffold.scaffold import name_of_folder, new_project
from precast.cli import main
from precast.loader.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def init(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main.run(["init", *map(str, words)])
    return int(ended.value.code or 0)


def test_it_writes_environment_kernel_project_and_ci(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(tmp_path / "acme-norms", "--name", "norm", "--json") == 0
    folder, printed = tmp_path / "acme-norms", json.loads(capsys.readouterr().out)
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert written == {
        ".gitignore", "precast.toml", "pyproject.toml", "norm.py", "norm_device.py", "norm.yaml",
        ".github/workflows/norm.yml", "ci/gitlab.yml", "ci/recipe", "ci/requirements.txt",
    }  # fmt: skip
    assert {str(folder / name) for name in written} == set(printed["files"]) and printed["kept"] == []
    assert printed["next"][0] == f"cd {folder}"
    assert read_project(folder / "precast.toml").manifests == (folder / "norm.yaml",)
    assert tomllib.loads((folder / "pyproject.toml").read_text())["project"]["name"] == "norm-kernels"


def test_every_line_of_the_project_file_that_is_commented_out_is_right(tmp_path: Path) -> None:
    """Who removes the # gets a file that is read, with every key."""
    text = new_project("norm").files["precast.toml"]
    lines = [line.removeprefix("# ") for line in text.splitlines() if " = " in line]
    (tmp_path / "precast.toml").write_text("\n".join(lines))
    assert {line.partition(" ")[0] for line in lines} == set(FIELDS)
    assert read_project(tmp_path / "precast.toml").jobs == 8


def test_an_existing_project_keeps_its_own_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in (".gitignore", "pyproject.toml"):
        (tmp_path / name).write_text("mine")
    assert init(tmp_path, "--name", "norm", "--no-ci") == 0
    assert f"kept {tmp_path / 'pyproject.toml'}" in capsys.readouterr().out
    assert (tmp_path / "pyproject.toml").read_text() == (tmp_path / ".gitignore").read_text() == "mine"
    assert not (tmp_path / "ci").exists()


def test_a_second_init_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(tmp_path, "--name", "norm") == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert init(tmp_path, "--name", "other") == 2
    assert "precast.toml" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["2norms", "torch", "class", "größe"])
def test_a_folder_that_gives_no_name_needs_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match="choose one with --name"):
        name_of_folder(tmp_path / name)
