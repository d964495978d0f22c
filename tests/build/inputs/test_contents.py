"""Digests of files and folders, and when a stamp proves that a file is as it was."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from precast.build.disk.memo import Memo
from precast.build.inputs import contents
from precast.build.inputs.contents import Contents, is_young, stamp_of

YEAR = 365 * 24 * 3600 * 10**9


def test_byte_code_that_python_writes_does_not_change_a_folder(tmp_path: Path) -> None:
    (tmp_path / "module.py").touch()
    before = Contents().folder(str(tmp_path))
    (tmp_path / "__pycache__").mkdir()
    assert Contents().folder(str(tmp_path)) == before
    (tmp_path / "other.py").touch()
    assert Contents().folder(str(tmp_path)) != before


def test_a_file_whose_time_was_set_back_is_young(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    old = time.time_ns() - YEAR
    os.utime(file, ns=(old, old))
    stamp = stamp_of(str(file))
    assert stamp is not None and is_young(stamp)
    assert not is_young((old, 0, 0, old))


def test_a_file_that_changes_within_its_stamp_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writes within one tick of the clock leave one stamp, so a young one is not kept as proof."""
    file, memo = tmp_path / "file", Memo(tmp_path / "memo")
    file.write_bytes(bytes(contents.SMALL))
    stamp = stamp_of(str(file))
    monkeypatch.setattr(contents, "stamp_of", lambda path: stamp)
    before = Contents(memo).read(str(file))
    file.write_bytes(b"1" * contents.SMALL)
    assert Contents(memo).read(str(file)) != before
