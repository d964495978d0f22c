"""The workflows, this project's and the one that ``precast new --ci`` writes: what they may do, and what they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.source_tree import ROOT

SCAFFOLD = ROOT / "build" / "scaffold" / "ci"
OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
WRITTEN = SCAFFOLD / "NAME.yml"
ALL = [*OWN, WRITTEN]
PINNED = re.compile(r"- uses: ([\w.-]+/[\w.-]+)@([0-9a-f]{40}) # (v\d+\.\d+\.\d+)")
TRIGGERS = {"push", "pull_request", "schedule"}
READ = {"contents": "read"}
STEP = re.compile(r"^step_([a-z]+)\(\)", re.MULTILINE)


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def steps(path: Path) -> Iterator[tuple[str, Any, Any]]:
    """Each step, with its job and that one's name."""
    for name, job in read(path)["jobs"].items():
        for step in job["steps"]:
            yield name, job, step


def each(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", ALL, ids=each)
def test_nobody_else_can_start_one_with_rights(path: Path) -> None:
    """``pull_request_target`` and ``workflow_run`` run with the rights of the repository on what a stranger wrote."""
    assert set(read(path)[True]) <= TRIGGERS  # YAML takes the word on for true


@pytest.mark.parametrize("path", ALL, ids=each)
def test_only_a_release_has_more_rights_than_to_read(path: Path) -> None:
    workflow = read(path)
    assert workflow["permissions"] == READ
    for name, job in workflow["jobs"].items():
        more = {right for right in job.get("permissions", {}).items() if right not in READ.items()}
        assert not more or job.get("environment") == "release", name
        assert more <= {("id-token", "write"), ("attestations", "write")}, name


@pytest.mark.parametrize("path", ALL, ids=each)
def test_a_secret_is_given_to_one_step_of_a_protected_job(path: Path) -> None:
    text = path.read_text()
    given = [
        (job, value)
        for _, job, step in steps(path)
        for value in step.get("env", {}).values()
        if "secrets." in str(value)
    ]
    assert len(given) == text.count("secrets."), "a secret stands elsewhere than in env: of a step"
    assert all(job.get("environment") == "release" for job, _ in given)


@pytest.mark.parametrize("path", ALL, ids=each)
def test_no_expression_becomes_a_part_of_a_script(path: Path) -> None:
    """A branch may be called anything: what a script reads comes by its environment."""
    assert not [step["run"] for _, _, step in steps(path) if "${{" in step.get("run", "")]


@pytest.mark.parametrize("path", ALL, ids=each)
def test_a_checkout_keeps_no_credentials(path: Path) -> None:
    for name, _, step in steps(path):
        if str(step.get("uses", "")).startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False, name


def test_every_action_is_pinned_and_the_same_everywhere() -> None:
    pins = set()
    for path in ALL:
        text = path.read_text()
        found = PINNED.findall(text)
        assert len(found) == text.count("uses:"), (
            f"{path.name}: pin each action by its commit, with its version behind it"
        )
        pins |= set(found)
    actions = [action for action, _, _ in pins]
    assert sorted(actions) == sorted(set(actions)), f"one action has two pins: {sorted(pins)}"


def test_the_written_workflow_runs_steps_of_the_recipe_and_nothing_else() -> None:
    known = set(STEP.findall((SCAFFOLD / "recipe").read_text()))
    run = [
        re.fullmatch(r"bash ci/recipe ([a-z]+)(?: \"\$[A-Z]+\")*", s["run"]) for _, _, s in steps(WRITTEN) if "run" in s
    ]
    assert all(run)
    used = {match[1] for match in run if match}
    assert used <= known
    assert known - used == {"plan", "cluster", "all"}, "these are for people, and every other one is run"


def test_the_jobs_for_gitlab_run_the_steps_of_those_for_github() -> None:
    jobs = read(SCAFFOLD / "gitlab.yml")
    (install,) = jobs[".recipe"]["before_script"]
    written = {line for job in jobs.values() if isinstance(job, dict) for line in job.get("script", ())} | {install}
    run = {step["run"] for _, _, step in steps(WRITTEN) if "run" in step}
    assert written == run - {"bash ci/recipe emulate"}
    assert all(job["extends"] == ".recipe" for job in jobs.values() if "script" in job)
    assert "CI_COMMIT_REF_PROTECTED" in jobs["verify"]["rules"][0]["if"]


def test_the_written_workflow_verifies_nothing_of_strangers() -> None:
    job = read(WRITTEN)["jobs"]["verify"]
    assert "github.event_name == 'push'" in job["if"] and "vars.GPU_RUNNER != ''" in job["if"]


def test_what_the_written_workflow_uploads_is_downloaded_under_the_same_name() -> None:
    jobs = read(WRITTEN)["jobs"]
    names: dict[str, set[str]] = {"upload": set(), "download": set()}
    for _, _, step in steps(WRITTEN):
        for way, found in names.items():
            if f"actions/{way}-artifact@" in step.get("uses", ""):
                found.add(step["with"].get("name") or step["with"]["pattern"])
    assert names["upload"] == {"part-${{ strategy.job-index }}", "cache", "report", "verified-cache", "dist"}
    either = "${{ needs.verify.result == 'success' && 'verified-cache' || 'cache' }}"
    assert names["download"] == {"part-*", "cache", either, "dist"}
    assert set(jobs["wheel"]["needs"]) == {"cache", "reproduce", "verify"}


def test_the_loader_is_published_before_the_builder() -> None:
    job = read(ROOT / ".github" / "workflows" / "release.yml")["jobs"]["publish"]
    distributions = ["loader", "emulator", "attach", "builder", "measure", "native", "publish"]
    assert job["strategy"] == {"max-parallel": 1, "matrix": {"distribution": distributions}}
    assert job["permissions"]["id-token"] == "write" and "secrets." not in str(job)
