"""Closures: the inputs of a compilation by names that are valid anywhere, and what moved while it compiled."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.build.compile.outcome import sampled
from precast.build.errors import ChangedInputError
from precast.build.inputs.closure import Closures, declared_input, reads_of
from precast.build.inputs.roots import Roots
from tests.helpers.attach.toy_library import write_toy_library
from tests.helpers.inputs.project import Project
from tests.helpers.variants import variant


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = Project(tmp_path / "project")
    monkeypatch.setattr(sys, "path", [*sys.path, str(made.site)])
    made.write({"kernel.py": "import acme, helper\n", "helper.py": "", "tiles.json": "1", "tables/a": "1"})
    made.install("acme", "1.0", {"acme/__init__.py": ""})
    made.declared = tuple(declared_input("files", text, made.search) for text in ("tiles.json", "tables", "none"))
    return made


def test_the_inputs_have_the_same_names_and_values_elsewhere(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = project.inputs().answers
    names = {name for name in first if not name.startswith("distribution:") or name == "distribution:acme"}
    assert names == {
        "python", "file:search/kernel.py", "file:search/helper.py", "file:search/tiles.json", "folder:search/tables",
        "file:search/none", "distribution:acme",
    }  # fmt: skip
    assert first["file:search/none"] is None
    project.folder.rename(tmp_path / "moved")
    moved = Project(tmp_path / "moved")
    moved.declared = tuple(declared_input("files", text, moved.search) for text in ("tiles.json", "tables", "none"))
    monkeypatch.setattr(sys, "path", [*sys.path[:-1], str(moved.site)])
    assert moved.inputs().answers == first


def test_a_name_does_not_depend_on_further_folders_of_the_path(tmp_path: Path) -> None:
    """A Dask worker puts the folder of its own files first, and a machine may have more that is installed."""
    one, two, empty = (tmp_path / name for name in ("one", "two", "empty"))
    for folder in (one, two, empty):
        folder.mkdir()
    (one / "torch.py").write_text("")
    (two / "torch.py").write_text("")
    few, many = Roots([], [str(one), str(two)]), Roots([], [str(empty), str(one), str(empty / "more"), str(two)])
    for number, folder in (("", one), ("2", two)):
        assert few.portable(f"{folder}/torch.py") == many.portable(f"{folder}/torch.py") == f"path{number}/torch.py"
        assert few.path_of(f"path{number}/torch.py") == many.path_of(f"path{number}/torch.py") == f"{folder}/torch.py"
    assert many.path_of("path3/torch.py") is None, "there is no third one"


def link(project: Project) -> None:
    (project.search / "none").symlink_to("nowhere")


MOVES: dict[str, Callable[[Project], object]] = {
    "file:search/kernel.py": lambda p: p.write({"kernel.py": "import acme, helper  # again\n"}),
    "file:search/tiles.json": lambda p: p.write({"tiles.json": "2"}),
    "folder:search/tables": lambda p: p.write({"tables/b": "2"}),
    "file:search/none": link,
    "distribution:acme": lambda p: p.install("acme", "1.0", {"acme/__init__.py": "x = 1\n"}),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_while_a_variant_compiles_is_an_error(name: str, project: Project) -> None:
    """What was read before is recorded as it was, and must still be so at the end."""
    closures, closure = project.closures(), project.closure()
    closures.inputs(closure)
    MOVES[name](project)
    with pytest.raises(ChangedInputError, match=f"{name} changed during the build: build again"):
        closures.inputs(closure)


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_before_its_value_was_needed_is_an_error(name: str, project: Project) -> None:
    """The values of a variant that is compiled for the first time are read before it compiles, not when it has."""
    closures, closure = project.closures(), project.closure()
    closures.read(closure)
    MOVES[name](project)
    with pytest.raises(ChangedInputError, match=f"{name} changed during the build: build again"):
        closures.inputs(closure)


def test_what_cannot_be_read_before_is_an_error_of_the_variant_and_not_of_the_build(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changes(path: str) -> str:
        raise ChangedInputError(f"{path} changed during the build: build again")

    closures, closure = project.closures(), project.closure()
    with monkeypatch.context() as patch:
        patch.setattr("precast.build.inputs.contents.hash_file", changes)
        closures.read(closure)
    with pytest.raises(ChangedInputError, match="changed during the build"):
        closures.inputs(closure)


def edit_and_undo(file: Path) -> None:
    for text in ("x", ""):
        file.write_text(text)


EDITS: dict[str, Callable[[Project], object]] = {
    "a file": lambda p: p.write({"acme/__init__.py": "x = 1"}, p.site),
    "a file, and back": lambda p: edit_and_undo(p.site / "acme" / "__init__.py"),
    "one more file": lambda p: p.write({"acme/more.py": ""}, p.site),
    "one file less": lambda p: (p.site / "acme/__init__.py").unlink(),
    "another version": lambda p: p.install("acme", "1.1", {"acme/__init__.py": ""}),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_package_that_is_edited_while_a_variant_compiles(name: str, project: Project) -> None:
    """Its list of files says nothing of that."""
    answers, closure = project.answers(), project.closure()
    assert answers.edited(closure.names) == frozenset(), "nothing was read"
    answers.answers(closure.names)
    assert answers.edited(closure.names) == frozenset()
    EDITS[name](project)
    assert answers.edited(closure.names) == {"distribution:acme"}


def test_a_file_that_is_written_again_with_the_same_content_has_not_moved(project: Project) -> None:
    closures, closure = project.closures(), project.closure()
    before = closures.inputs(closure)
    project.write({"tiles.json": "1"})
    os.utime(project.search / "tiles.json", (1, 1))
    assert closures.inputs(closure) == before


def test_an_environment_of_hard_links_is_no_change(project: Project) -> None:
    closures, closure = project.closures(), project.closure()
    before = closures.inputs(closure)
    for number, name in enumerate(("acme-1.0.dist-info/RECORD", "acme/__init__.py")):
        os.link(project.site / name, project.folder / f"elsewhere{number}")
    assert closures.inputs(closure) == before
    assert closures.answers.edited(closure.names) == frozenset()


def test_all_files_of_an_attached_library_without_a_list_of_its_files_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editable one: the guard of each kernel has the digest of all its files, not only of those that it reaches."""
    pytest.importorskip("precast.attach")
    monkeypatch.setattr(sys, "path", [str(write_toy_library(tmp_path / "site")), *sys.path])
    closure = Closures.here([]).of([reads_of("toy_attached.kernels:compiled_alone@toy")])
    assert str(tmp_path / "site" / "toy_attached" / "native.py") in closure.sources


def test_some_variants_are_compiled_twice() -> None:
    """One of a function with many variants, else one of all; whichever order they are in."""
    many = [variant(number) for number in range(20)]
    (one,) = sampled(many)
    assert sampled(many[::-1]) == {one} and one in {each.identity for each in many}
    assert len(sampled(many[:2])) == 1 and sampled([]) == frozenset()
