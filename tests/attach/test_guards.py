"""The digest of an installed library: which changes of its files are noticed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from precast.attach.guards import Guard, NotInstalled, folder_of, guard_of
from tests.helpers.attach.mini_library import PACKAGE, write_library

KERNELS = f"{PACKAGE}/kernels.py"


def guard() -> Guard:
    return guard_of(PACKAGE, PACKAGE)


def test_the_version_and_the_sources_are_the_identity(installed: Path, tmp_path: Path) -> None:
    before = guard()
    assert before.version == "1.0"
    write_library(installed, {KERNELS: (installed / KERNELS).read_text()})
    assert guard() == before
    write_library(installed, {KERNELS: "changed = True\n"})
    assert guard().source != before.source


def test_a_file_that_is_edited_in_place_is_noticed_without_an_import(installed: Path) -> None:
    before = guard()
    path = installed / KERNELS
    record = installed / f"{PACKAGE}-1.0.dist-info" / "RECORD"
    edited = path.read_text().replace("compiled", "Compiled")  # as long as it was
    path.write_text(edited)
    os.utime(path, ns=(1, record.stat().st_mtime_ns + 1))
    changed = guard()
    assert changed.source != before.source
    path.write_text(edited + "\n")
    os.utime(path, ns=(1, 1))
    assert guard().source not in (before.source, changed.source)
    path.unlink()
    assert guard().source not in (before.source, changed.source)


def test_the_digest_does_not_depend_on_when_the_files_were_written(installed: Path) -> None:
    before = guard()
    os.utime(installed / KERNELS, ns=(1, 2**62))
    assert guard() == before


def test_files_of_others_in_the_folder_do_not_count(installed: Path) -> None:
    before = guard()
    (installed / PACKAGE / "of_another_distribution.py").write_text("")
    assert guard() == before


def test_a_copy_that_comes_first_on_the_path_is_read(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = guard()
    copy = tmp_path / "copy" / PACKAGE
    copy.mkdir(parents=True)
    for name in ("__init__.py", "kernels.py"):
        (copy / name).write_text((installed / PACKAGE / name).read_text())
    monkeypatch.syspath_prepend(copy.parent)
    assert guard() == before
    (copy / "kernels.py").write_text("changed = True\n")
    assert guard().source != before.source


def test_an_editable_install_is_read(installed: Path) -> None:
    before = guard()
    (installed / f"{PACKAGE}-1.0.dist-info" / "RECORD").write_text("")
    assert guard() == before
    (installed / KERNELS).write_text("changed = True\n")
    assert guard().source != before.source


def test_a_distribution_is_found_by_any_spelling(installed: Path) -> None:
    with pytest.raises(NotInstalled, match="pip install mini-lib"):
        guard_of("mini-lib", PACKAGE)
    assert guard_of("MiniLib", PACKAGE) == guard()


def test_a_package_inside_another_that_is_installed_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outer = write_library(tmp_path / "one", {}, package="outerlib", distribution="outerlib")
    inner = write_library(
        tmp_path / "two", {"outerlib/inner/kernels.py": "x = 1\n"}, package="outerlib/inner", distribution="innerlib"
    )
    monkeypatch.syspath_prepend(inner)
    monkeypatch.syspath_prepend(outer)
    assert folder_of("outerlib") == outer / "outerlib"
    assert folder_of("outerlib.inner") == inner / "outerlib" / "inner"
    assert folder_of("outerlib.other") is None
    before = guard_of("innerlib", "outerlib.inner")
    (outer / "outerlib" / "__init__.py").write_text("changed = True\n")
    assert guard_of("innerlib", "outerlib.inner") == before
    (inner / "outerlib" / "inner" / "kernels.py").write_text("changed = True\n")
    assert guard_of("innerlib", "outerlib.inner").source != before.source
