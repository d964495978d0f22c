"""Which requests of native code and of other programs count, and which of those of the compiler's own libraries do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from precast.build.inputs.input_rules import InputRules
from precast.build.inputs.observation import Observation
from tests.helpers.inputs.observed_project import ObservedProject

NOTHING: dict[str, Any] = {
    "asked": [], "native": [], "stamps": {}, "digests": {}, "modules": [], "missing": [], "libraries": [], "path": [],
    "relative": [], "complete": True,
}  # fmt: skip
COUNTED = [
    ("file", "/work/tiles.json", "file:/work/tiles.json"),
    ("file", "/etc/tiles.conf", "file:/etc/tiles.conf"),
    ("folder", "/work/tiles", "folder:/work/tiles"),
    ("exists", "/work/switch", "exists:/work/switch"),
    ("exists", "/usr/bin/acme", "program:acme"),
    ("link", "/work/current", "link:/work/current"),
    ("variable", "TILE", "variable:TILE"),
    ("program", "/usr/bin/env", "file:/usr/bin/env"),
]
IGNORED = [
    ("file", "/usr/lib/locale/locale-archive"),
    ("file", "/usr/share/zoneinfo/UTC"),
    ("file", "/etc/ld.so.cache"),
    ("file", "/proc/self/status"),
    ("file", "/work/__pycache__/a.pyc"),
    ("folder", "/usr/include"),
    ("exists", "/"),
    ("variable", "HOME"),
    ("variable", "LC_ALL"),
    ("variable", "PYTHONPATH"),
    ("clock", "gettimeofday in git"),
    ("host", "gethostname in bash"),
]
UNSTEADY = [("clock", "time in date", "clock"), ("file", "/dev/urandom", "randomness"), ("process", "/x", "process")]


def counted(project: ObservedProject, kind: str, what: str, file: str) -> tuple[set[str], list[str]]:
    observation = Observation.parse({**NOTHING, "native": [[kind, what, file, 3]]})
    inputs, unsteady = InputRules(project.answers()).inputs_of(observation)
    return set(inputs.names) - {"python"}, [one.kind for one in unsteady]


@pytest.mark.parametrize(("kind", "what", "name"), COUNTED)
def test_what_counts(kind: str, what: str, name: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.variables["PATH"] = "/usr/bin:/bin"
    assert counted(project, kind, what, str(project.search / "kernel.py")) == ({name}, [])


@pytest.mark.parametrize(("kind", "what"), IGNORED)
def test_what_does_not(kind: str, what: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    assert counted(project, kind, what, str(project.search / "kernel.py")) == (set(), [])


@pytest.mark.parametrize(("kind", "what", "reported"), UNSTEADY)
def test_what_is_reported(kind: str, what: str, reported: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    assert counted(project, kind, what, str(project.search / "kernel.py")) == (set(), [reported])


def test_the_folders_above_the_search_folders_do_not_count(tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    for folder in (project.search, project.search.parent, tmp_path.parent):
        assert counted(project, "exists", str(folder), "") == (set(), [])


@pytest.mark.parametrize(("kind", "what"), [("variable", "TILE"), ("clock", "time in a"), ("file", "/etc/hosts")])
def test_libraries_of_installed_distributions_have_their_own_rules(kind: str, what: str, tmp_path: Path) -> None:
    project = ObservedProject(tmp_path)
    project.install("acme", "1.0", {"acme/library.so": ""})
    project.path = [str(project.site)]
    assert counted(project, kind, what, str(project.site / "acme/library.so")) == (set(), [])
    data = str(project.search / "tiles.json")
    assert counted(project, "file", data, str(project.site / "acme/library.so")) == ({"file:search/tiles.json"}, [])
