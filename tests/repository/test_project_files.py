"""The files around the code: workflows, hooks, templates and the Makefile say the same."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from precast.loader.version import VERSION
from tests.helpers.pages import PAGES
from tests.helpers.source_tree import ROOT

GITHUB = sorted((ROOT / ".github").rglob("*.yml"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def goals() -> set[str]:
    """What ``make`` can be asked for."""
    return set(re.findall(r"^([a-z0-9-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def asked(text: str) -> set[str]:
    """The goals that a text asks make for, in a command."""
    return set(re.findall(r"(?:^\s*(?:- )?(?:run: )?|`|&& )make ([a-z][a-z0-9-]*)", text, re.MULTILINE))


@pytest.mark.parametrize("path", GITHUB, ids=lambda p: p.name)
def test_what_github_reads_is_yaml(path: Path) -> None:
    assert isinstance(read(path), dict)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.name)
def test_a_workflow_has_jobs_with_steps_and_limits(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == {"contents": "read"}, "a workflow asks for no right that it does not need"
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] and job["runs-on"], name
        assert all(("run" in step) != ("uses" in step) for step in job["steps"]), name


@pytest.mark.parametrize(
    "path", [*WORKFLOWS, ROOT / ".ci" / "run", *(ROOT / page for page in PAGES)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_goal_of_make_that_is_named_exists(path: Path) -> None:
    assert asked(path.read_text()) <= goals()


def test_the_workflows_call_make() -> None:
    """So that a step of the CI can be run on any machine."""
    assert set().union(*(asked(path.read_text()) for path in WORKFLOWS)) == {
        "check",
        "test",
        "test-all",
        "cov",
        "demo",
        "dist",
    }


def test_every_slow_test_is_in_one_part_of_ci() -> None:
    text = (ROOT / ".ci" / "run").read_text()
    parts = re.search(r"^parts=\((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    assert parts
    rooms = [Path("tests", room) for room in re.sub(r"[\"\n]", " ", parts[1]).split()]
    tests = [path.relative_to(ROOT) for path in (ROOT / "tests").rglob("test_*.py")]
    slow = [path for path in tests if "mark.slow" in (ROOT / path).read_text()]
    counts = {str(path): sum(room in (path, *path.parents) for room in rooms) for path in slow}
    assert {path: count for path, count in counts.items() if count != 1} == {}
    assert [str(room) for room in rooms if not any(room in (path, *path.parents) for path in slow)] == []


def test_the_tests_run_on_every_supported_python() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    classified = set(re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text))
    matrix = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]["test"]["strategy"]["matrix"]
    assert set(matrix["python"]) == classified
    assert {one["python"] for one in matrix["include"] if one["may-fail"]}.isdisjoint(classified)


def test_the_hooks_run_the_checks_of_make() -> None:
    hooks = [hook["entry"] for repo in read(ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    recipe = (ROOT / "Makefile").read_text().replace("$(CHECK)", ".work/check")
    assert [h for h in hooks if h.split()[0] not in recipe] == []
    assert {Path(h.split()[0]).name for h in hooks} == {"ruff", "mypy", "lint-imports"}


def test_a_room_that_does_not_exist_is_an_error() -> None:
    done = subprocess.run(
        ["make", "room", "ROOM=loader/nothing"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "there is no room loader/nothing" in done.stderr
    several = subprocess.run(["make", "room", "ROOM=cli loader/resolve build/test_kill.py"], cwd=ROOT, check=False)
    assert several.returncode == 0


def test_a_room_selects_its_tests_and_its_doctests() -> None:
    done = subprocess.run(
        ["make", "-n", "test", "ROOM=loader/resolve", "ARGS="], cwd=ROOT, capture_output=True, text=True, check=True
    )
    line = next(line for line in done.stdout.splitlines() if "pytest" in line)
    assert line.split()[-2:] == ["tests/loader/resolve", "src/precast/loader/resolve"], line


def test_the_changelog_has_this_version() -> None:
    heads = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert heads[1] == VERSION
