"""Fingerprints: which changes of a file or a folder a watch sees."""

from __future__ import annotations

import os
from pathlib import Path

from precast.build.watch.fingerprints import Fingerprints, changed, modified_since


def test_a_file_counts_as_changed_by_its_content_alone(tmp_path: Path) -> None:
    file, prints = tmp_path / "kernel.py", Fingerprints()
    file.write_text("one")
    before = prints.now([str(file)])
    os.utime(file, ns=(1, 1))
    assert changed(before, prints.now([str(file)])) == (), "it was written again as it was"
    file.write_text("two")
    assert changed(before, prints.now([str(file)])) == (str(file),)
    file.unlink()
    assert changed(before, prints.now([str(file)])) == (str(file),)


def test_a_folder_counts_by_its_names_without_what_a_build_writes(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    prints = Fingerprints(frozenset({str(cache)}))
    before = prints.now([str(tmp_path)])
    for name in ("cache", "__pycache__", ".swap"):
        (tmp_path / name).mkdir()
    assert changed(before, prints.now([str(tmp_path)])) == ()
    (tmp_path / "tiles.txt").write_text("64")
    assert changed(before, prints.now([str(tmp_path)])) == (str(tmp_path),)


def test_a_large_file_counts_by_its_stamp(tmp_path: Path) -> None:
    file, prints = tmp_path / "table.bin", Fingerprints()
    with file.open("wb") as out:
        out.truncate(17 << 20)
    before = prints.now([str(file)])
    assert before == prints.now([str(file)])
    os.utime(file, ns=(1, 1))
    assert changed(before, prints.now([str(file)])) == (str(file),)


def test_a_file_that_was_modified_while_a_round_ran(tmp_path: Path) -> None:
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    for file, time in ((old, 10), (new, 20)):
        file.write_text("")
        os.utime(file, ns=(time, time))
    assert modified_since([str(old), str(new), str(tmp_path)], 20) == (str(new),)
