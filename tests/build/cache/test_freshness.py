"""Whether a cache holds what a build would make now, by what its artifacts were made of."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from precast.build.cache.contents import CacheContents
from precast.build.cache.coverage import coverage
from precast.build.cache.freshness import INPUTS, stale
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.inputs import shortened
from precast.build.inputs.roots import Roots
from precast.loader.contract.format.artifact import Artifact
from tests.helpers.packed_caches import Built, scale_plan


def answers(folder: Path, **files: str) -> InputAnswers:
    """With files of this content in the home folder."""
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    for name, text in files.items():
        (home / name).write_text(text)
    return InputAnswers(Roots([], [], str(home)))


def built(folder: Path, **files: str) -> CacheContents:
    """A cache whose artifacts say that they were made of these files."""
    then = answers(folder, **files)
    read = {f"file:~/{name}": shortened(then.answer(f"file:~/{name}")) for name in files}

    def made_of(artifact: Artifact) -> Artifact:
        return replace(artifact, provenance={INPUTS: {"digest": "0" * 64, "read": read}})

    return CacheContents.open(Built(change=made_of).write(folder / "cache"))


@pytest.mark.parametrize(("now", "fresh"), [({"TILE": "1"}, True), ({"TILE": "2"}, False), ({}, False)])
def test_an_artifact_is_fresh_while_its_inputs_are_as_they_were(
    tmp_path: Path, now: dict[str, str], fresh: bool
) -> None:
    cache, plan = built(tmp_path, TILE="1"), scale_plan("bfloat16", "float16")
    assert (stale(plan, cache, answers(tmp_path, **now)) == {}) == fresh
    assert coverage(plan, cache, answers(tmp_path, **now)).complete == fresh


def test_what_no_plan_asks_for_is_not_stale(tmp_path: Path) -> None:
    cache = built(tmp_path, TILE="1")
    assert {name.config for name in stale(scale_plan("float16"), cache, answers(tmp_path))} == {
        name.config for name in cache.artifacts if "bfloat16" not in name.config
    }
