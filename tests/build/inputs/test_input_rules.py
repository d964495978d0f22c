"""Which of the things that were read count: who asked decides."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from precast.build.errors import ChangedInputError
from precast.build.inputs.input_rules import InputRules
from precast.build.inputs.observation import Observation
from precast.build.inputs.stamp import stamp_of
from tests.helpers.inputs.observed_project import ObservedProject

NOTHING: dict[str, Any] = {
    "asked": [], "native": [], "stamps": {}, "digests": {}, "modules": [], "missing": [], "libraries": [], "path": [],
    "relative": [], "complete": True,
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> ObservedProject:
    """With a distribution, its module, and a module of the author's."""
    made = ObservedProject(tmp_path)
    made.install("acme", "1.0", {"acme/__init__.py": "", "acme/tiles.json": "1"})
    made.write({"kernel.py": ""})
    made.path = [os.path.dirname(os.__file__), str(made.site), str(made.tools)]
    return made


def counted(project: ObservedProject, given: tuple[str, ...] = (), **observed: Any) -> tuple[set[str], list[str]]:
    """The names of the inputs but for Python, and the kinds of what can be none."""
    inputs, unsteady = InputRules(project.answers()).inputs_of(Observation.parse({**NOTHING, **observed}), given)
    return set(inputs.names) - {"python"}, [one.kind for one in unsteady]


SYSTEM_ASKS = [
    ("variable", "HOME"), ("variable", "LC_ALL"), ("variable", "XDG_CACHE_HOME"), ("variables", "*"),
    ("file", "/etc/os-release"), ("file", "/proc/cpuinfo"), ("folder", "/sys/class"), ("file", "TEMPORARY/x"),
    ("library", "libcuda.so.1"), ("library", "/usr/lib/libx.so"), ("program", "ldconfig"), ("program", "/bin/sh"),
    ("clock", "time.time"), ("randomness", "os.urandom"), ("network", "socket.connect"),
]  # fmt: skip
BY_AUTHOR = [
    "variable:HOME", "variable:LC_ALL", "variable:XDG_CACHE_HOME", "variables", "file:/etc/os-release", "system",
    "system", "file:TEMPORARY/x", "library:libcuda.so.1", "file:/usr/lib/libx.so", "program:ldconfig", "file:/bin/sh",
    "clock", "randomness", "network",
]  # fmt: skip


@pytest.mark.parametrize(("ask", "expected"), list(zip(SYSTEM_ASKS, BY_AUTHOR, strict=True)), ids=str)
def test_what_is_noise_from_a_distribution_counts_from_an_author(
    project: ObservedProject, ask: tuple[str, str], expected: str
) -> None:
    kind, what = ask[0], ask[1].replace("TEMPORARY", str(project.temporary))
    author = counted(project, asked=[[kind, what, str(project.search / "kernel.py"), 1]])
    expected = expected.replace("TEMPORARY", str(project.temporary))
    assert author in [({expected}, []), (set(), [expected])]
    assert counted(project, asked=[[kind, what, str(project.site / "acme/__init__.py"), 1]]) == (set(), [])
    loose = counted(project, asked=[[kind, what, str(project.site / "acme/loose.py"), 1]])
    assert loose == author  # it stands in site-packages, and no distribution lists it


def test_what_distributions_read_counts_but_for_variables(project: ObservedProject) -> None:
    place = [str(project.site / "acme/__init__.py"), 1]
    asked = [
        ["variable", "ACME_TILE", *place],
        ["variable", "GIVEN", *place],
        ["file", f"{project.home}/.acme", *place],
        ["file", f"{project.site}/acme/tiles.json", *place],
        ["file", f"{project.site}/acme/not_there.json", *place],
    ]
    assert counted(project, ("GIVEN",), asked=asked) == (
        {"file:~/.acme", "distribution:acme"},
        [],
    )


def test_a_name_inside_a_distribution_that_was_not_found_is_the_distributions(project: ObservedProject) -> None:
    """Only a new version can add it; a top name anybody can."""
    modules = [["acme", f"{project.site}/acme/__init__.py", True], ["own", None, True]]
    names, _ = counted(project, modules=modules, missing=["acme.fast", "own.fast", "fast", "json.fast"])
    assert names == {"module:acme", "distribution:acme", "module:own", "module:own.fast", "module:fast"}


def test_a_search_for_plug_ins_is_noise_from_a_distribution(tmp_path: Path) -> None:
    """torch goes through the entry points of all that is installed, whenever it is imported."""
    project = ObservedProject(tmp_path)
    asks = "from importlib.metadata import entry_points, version\n"
    project.install("other", "1.0", {"other.py": "", "other-1.0.dist-info/entry_points.txt": "[acme]\nx = other:x\n"})
    project.install("third", "1.0", {"third.py": ""})
    plug_ins, one = f"{asks}entry_points(group='acme')\n", f"{asks}version('third')\n"
    expected = {plug_ins: set(), one: {"third"}}
    for code, found in expected.items():
        project.install("acme", "1.0", {"acme.py": code})
        project.write({"kernel.py": "import acme\n"})
        names = project.inputs().names
        assert {one for one in ("acme", "other", "third") if f"distribution:{one}" in names} == {"acme", *found}
        project.write({"kernel.py": code})
        assert ("distributions" in project.inputs().names) == (code == plug_ins)


def test_precast_itself_does_not_count_and_its_kernels_do(project: ObservedProject) -> None:
    """The version in every key covers the machinery."""
    import precast.build.errors
    import precast.kernels

    asked = [
        ["file", os.path.abspath(str(module.__file__)), "", 0] for module in (precast.build.errors, precast.kernels)
    ]
    names, _ = counted(project, asked=asked)
    assert [name.rpartition("/precast/")[2] for name in names] == ["kernels/__init__.py"]


def test_what_an_observer_could_not_record_cannot_be_reused(project: ObservedProject) -> None:
    assert counted(project, complete=False) == (set(), ["unseen"])
    strange = [["file", "/" + "a" * 8000, str(project.search / "kernel.py"), 1]]
    assert counted(project, asked=strange) == (set(), ["unseen"])


@pytest.mark.parametrize("name", ["search/tiles.json", "search/kernel.py", "venv/site-packages/acme/__init__.py"])
def test_a_file_that_changed_since_it_was_read_is_named(project: ObservedProject, name: str) -> None:
    project.write({"tiles.json": ""})
    path = project.folder / name
    module = name.endswith(".py")
    observed: dict[str, Any] = {
        "stamps": {str(path): list(stamp_of(str(path)) or ())},
        "modules": [["acme" if "acme" in name else "kernel", str(path), "acme" in name]] if module else [],
        "asked": [] if module else [["file", str(path), str(project.search / "kernel.py"), 1]],
    }
    counted(project, **observed)
    path.write_text("x = 2\n")
    with pytest.raises(ChangedInputError, match=rf"{path} changed during the build: build again"):
        counted(project, **observed)


def test_a_file_that_another_environment_links_has_not_changed(project: ObservedProject) -> None:
    """Installers make environments out of hard links: that is a change of a file's facts, and of nothing else."""
    installed, own = project.site / "acme/tiles.json", project.search / "kernel.py"
    observed: dict[str, Any] = {
        "asked": [["file", str(installed), str(own), 1]],
        "stamps": {str(path): list(stamp_of(str(path)) or ()) for path in (installed, own)},
    }
    before = counted(project, **observed)
    os.link(installed, project.folder / "linked")
    assert list(stamp_of(str(installed)) or ()) != observed["stamps"][str(installed)]
    assert counted(project, **observed) == before


def test_a_file_of_a_distribution_whose_times_were_set_back_has_changed(project: ObservedProject) -> None:
    path = project.site / "acme/tiles.json"
    before = path.stat()
    observed: dict[str, Any] = {
        "asked": [["file", str(path), str(project.search / "kernel.py"), 1]],
        "stamps": {str(path): list(stamp_of(str(path)) or ())},
    }
    path.write_text("2")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (stamp_of(str(path)) or ())[:3] == tuple(observed["stamps"][str(path)][:3])
    with pytest.raises(ChangedInputError, match="tiles"):
        counted(project, **observed)


def test_a_file_that_appeared_since_it_was_missed_is_named(project: ObservedProject) -> None:
    path = project.search / "tiles.json"
    observed: dict[str, Any] = {"asked": [["file", str(path), "", 0]], "stamps": {str(path): None}}
    assert counted(project, **observed) == ({"file:search/tiles.json"}, [])
    path.write_text("")
    with pytest.raises(ChangedInputError):
        counted(project, **observed)


def test_answers_are_of_one_moment(project: ObservedProject) -> None:
    """A file that changes between two variants of a build is noticed by the second."""
    path = project.search / "tiles.json"
    path.write_text("1")
    answers = project.answers()
    first = answers.answer("file:search/tiles.json")
    path.write_text("2")
    assert answers.answer("file:search/tiles.json") == first
    observed = {"asked": [["file", str(path), "", 0]], "stamps": {str(path): list(stamp_of(str(path)) or ())}}
    with pytest.raises(ChangedInputError):
        InputRules(answers).inputs_of(Observation.parse({**NOTHING, **observed}))
