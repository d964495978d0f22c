"""Tutorials and guides are followed: each file, command and output of them, in an empty folder, in their order."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from precast.build.wheel.wheel import write_wheels
from tests.helpers.builds import kept_store
from tests.helpers.caches import Native, demo
from tests.helpers.documentation.clean import programs
from tests.helpers.documentation.walks import Command, File, matches, steps, walk
from tests.helpers.pages import blocks
from tests.helpers.source_tree import ROOT

# What is installed is compiled when it is imported, and once: most of it never is.
QUIET = {"COLUMNS": "200", "PIP_NO_COMPILE": "1", "PYTHONDONTWRITEBYTECODE": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


@pytest.fixture
def shell() -> dict[str, str]:
    """What a reader's shell has, but for this machine's own precast: the store of tests, and this checkout's pins."""
    kept = {"PRECAST_STORE": str(kept_store()), "PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
    return {**QUIET, **kept, "PYTHONPATH": ""}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder beside a checkout of precast."""
    made = tmp_path / "reader"
    made.mkdir()
    (tmp_path / "precast").symlink_to(ROOT)
    return made


@pytest.fixture
def installed(shell: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A shell in which precast, and the libraries of its extras, are installed already: those of this environment."""
    return {**shell, "PATH": path_of(programs(tmp_path / "bin", Path(sys.executable)), Path(sys.executable).parent)}


def path_of(*folders: Path) -> str:
    return os.pathsep.join([*map(str, folders), os.environ["PATH"]])


@pytest.mark.slow
def test_the_tutorial(folder: Path, shell: dict[str, str], tmp_path: Path) -> None:
    """From nothing: two environments are made, the builder's and the server's."""
    bare = Path(sys.base_prefix, "bin")  # a Python without this environment's packages
    walk("docs/tutorial.md", folder, {**shell, "PATH": path_of(programs(tmp_path / "bin", bare / "python3"), bare)})
    assert (folder / "report.html").is_file()


@pytest.mark.slow
def test_the_guide_to_attaching(folder: Path, installed: dict[str, str]) -> None:
    if importlib.util.find_spec("quack") is None:
        pytest.skip("quack is not installed")
    walk("docs/attach.md", folder, installed)


@pytest.mark.slow
def test_the_part_on_machines_without_a_network(folder: Path, installed: dict[str, str]) -> None:
    """It begins with a cache wheel in ``dist``."""
    installed["PIP_NO_BUILD_ISOLATION"] = "0"  # what builds the loader is here
    write_wheels(demo(Native(folder)).write(folder / "demo"), folder / "dist", version="1.0")
    done = walk("docs/distribution.md#Machines without a network", folder, installed)
    assert "scale" in done[-1].output


def test_the_image_of_the_tutorial_runs_its_commands() -> None:
    """Each line that an image runs is one that the reader has run, in the same order."""
    (image,) = blocks("docs/tutorial.md", "dockerfile")
    runs = [line.removeprefix("RUN ") for line in image.splitlines() if line.startswith("RUN ")]
    typed = [step.line for step in steps("docs/tutorial.md") if isinstance(step, Command)]
    new = ["pip wheel -q --no-deps -w dist ../precast/loader", "pip install -q dist/*.whl"]
    common = [line for line in runs if line not in new]
    assert common == [line for line in typed if line in common]
    assert set(runs) - set(common) == set(new)


def test_a_walk_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "Save this as `a.py`:\n\n```python\n1\n```\n\n```sh\necho a\\\n b\nfalse  # exit 1\n```\n\n```text\n...\n```\n"
    )
    monkeypatch.setattr("tests.helpers.documentation.walks.text_of", lambda page: text)
    assert list(steps("page")) == [File("a.py", "1\n"), Command("echo a b"), Command("false  # exit 1", "...\n")]
    monkeypatch.setattr("tests.helpers.documentation.walks.text_of", lambda page: f"{text}\n```yaml\na: 1\n```\n")
    with pytest.raises(ValueError, match="page:17: a block in yaml that is neither"):
        list(steps("page"))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```sh\nfalse\n```\n", "status 1"),
        ("```sh\ntrue # exit 1\n```\n", "status 0"),
        ("```sh\necho 7\n```\n\n```text\n8\n```\n", "but the page shows:\n8"),
        ("```sh\nfalse\ntrue\n```\n", "status 1"),
        ("```sh\ntrue  # on a machine with a GPU\n```\n", "status 0"),
        ("```sh\nfalse  # on a machine with a GPU\n```\n", "status 1"),
    ],
)
def test_a_page_that_is_wrong_is_found(text: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.helpers.documentation.walks.text_of", lambda page: text)
    with pytest.raises(AssertionError, match=wrong):
        walk("page", tmp_path, {})


def test_a_page_that_is_right_is_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "`a/b.txt`:\n\n```text\n8\n```\n\n```sh\ncd a\ncat b.txt\n```\n\n```text\n8\n```\n\n"
    text += "```sh\necho no GPU >&2; (exit 1)  # on a machine with a GPU\n```\n"
    monkeypatch.setattr("tests.helpers.documentation.walks.text_of", lambda page: text)
    done = walk("page", tmp_path, {})
    assert [one.status for one in done] == [0, 0, 1]
    assert matches("8", done[1].output)
