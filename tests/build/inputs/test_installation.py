"""Distributions by their lists of files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.build.errors import ChangedInputError
from precast.build.inputs import contents
from precast.build.inputs.contents import Contents, hash_file
from precast.build.inputs.installation import Installation
from tests.helpers.inputs.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    points = {"Acme.Tiles-1.0.dist-info/entry_points.txt": "[tiles]\na = acme\n"}
    files = {"acme/__init__.py": "x = 1\n", "acme/data,1.json": "1", **points}
    made.install("Acme.Tiles", "1.0", files, '"acme/a,b.txt",,')
    return made


def answer(project: Project, name: str = "acme-tiles") -> str | None:
    return Installation([str(project.site)], project.memo).answer(name)


def hashes(monkeypatch: pytest.MonkeyPatch, module: str) -> list[str]:
    """The files that a module hashes from now on."""
    hashed: list[str] = []

    def noted(path: str, original: Callable[[str], str | None] = contents.hash_file) -> str | None:
        hashed.append(path)
        return original(path)

    monkeypatch.setattr(f"precast.build.inputs.{module}.hash_file", noted)
    return hashed


def test_owners(project: Project) -> None:
    installation = Installation([str(project.site)], project.memo)
    owners = {
        name: installation.owner(str(project.site / name)) for name in ("acme/__init__.py", "acme/new.py", "b.py")
    }
    assert owners == {"acme/__init__.py": "acme-tiles", "acme/new.py": None, "b.py": None}
    assert installation.owner("/elsewhere/acme/__init__.py") is None


@pytest.mark.parametrize(
    "name",
    [
        "acme/__init__.py",
        "Acme.Tiles-1.0.dist-info/METADATA",
        "Acme.Tiles-1.0.dist-info/entry_points.txt",
        "acme/a,b.txt",
    ],
)
def test_an_edit_in_place_counts_and_its_undoing_too(
    project: Project, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the time and the size are what they were, and what was found before is kept."""
    monkeypatch.setattr(contents, "_YOUNG", 0)  # so that the memo keeps even this
    path = project.site / name
    path.touch()
    before, text = answer(project), path.read_text()
    assert before is not None and before.startswith("1.0 ")
    assert answer(project) == before
    facts = path.stat()
    path.write_text("y" * len(text) or "y")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert answer(project) not in (None, before)
    path.write_text(text)
    assert answer(project) == before
    path.unlink()
    assert answer(project) not in (None, before)


def test_a_kept_answer_is_used(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is hashed that is as it was."""
    monkeypatch.setattr(contents, "_YOUNG", 0)
    before = answer(project)
    monkeypatch.setattr("precast.build.inputs.installation.hash_file", lambda path: pytest.fail("hashed again"))
    assert answer(project) == before


def test_a_young_stamp_proves_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed = hashes(monkeypatch, "installation")
    assert answer(project) == answer(project)
    assert len(hashed) == 2 * len(set(hashed))


def test_how_it_was_installed_does_not_count(project: Project) -> None:
    before = answer(project)
    info = project.site / "Acme.Tiles-1.0.dist-info"
    (info / "INSTALLER").write_text("uv")
    with (info / "RECORD").open("a") as file:
        file.write("acme/__pycache__/__init__.cpython-312.pyc,,\n../../../bin/acme,sha256=AA,1\n")
        file.write("Acme.Tiles-1.0.dist-info/INSTALLER,sha256=AA,2\n")
    assert answer(project) == before


def test_a_distribution_that_another_hides_owns_nothing(project: Project) -> None:
    other = Project(project.folder / "other")
    other.install("acme_tiles", "2.0", {"acme/__init__.py": ""})
    installation = Installation([str(other.site), str(project.site)])
    assert installation.owner(str(project.site / "acme/__init__.py")) is None
    assert (installation.answer("acme-tiles") or "").startswith("2.0 ")


def test_large_files_are_hashed_once_and_small_ones_always(
    tmp_path: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "_YOUNG", 0)
    hashed = hashes(monkeypatch, "contents")
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"1")
    large.write_bytes(bytes(contents.SMALL))
    for _ in range(2):
        read = Contents(project.memo)
        for path in (small, large):
            assert read.read(str(path)) == read.read(str(path))
    assert hashed == [str(small), str(large), str(small)]


def test_what_is_no_file_has_no_content(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "", "not there"):
        assert Contents().read(str(tmp_path / name)).digest is None


def test_a_file_that_is_written_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, read = tmp_path / "tiles.json", os.read
    file.write_bytes(b"one")

    def meanwhile(handle: int, size: int) -> bytes:
        os.utime(file, ns=(1, 1))  # written again, in the same size
        return read(handle, size)

    monkeypatch.setattr(os, "read", meanwhile)
    with pytest.raises(ChangedInputError, match=r"tiles\.json"):
        hash_file(str(file))
