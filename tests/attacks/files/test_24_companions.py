"""Files of other compilers that a cache carries name paths outside of their companion's folder, or are too much.

The index of companions is read as a whole before a folder is made: one such name, and none of the files is placed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from precast.attach.companions.placement import place_files
from tests.helpers.attach.companions import FACTS, cache_listing

BLOB = {"sha256": "0" * 64, "size": 3, "stored": 3, "encoding": "raw"}
PATHS = ("../../.bashrc", "/etc/cron.d/x", "a/../../x", "..", "a\0b", "../cuda-0/index", "~/x/../../y", "a\\..\\b")


def listed(*paths: str, **changes: Any) -> dict[str, Any]:
    return {"name": "triton", "facts": FACTS, "files": [{"path": path, "blobs": [BLOB]} for path in paths], **changes}


def refused(tmp_path: Path, *companions: object) -> str:
    """The reason why nothing of it was placed."""
    cache = cache_listing(tmp_path / "cache", list(companions))
    placement = place_files(cache, tmp_path / "root", lambda companion: FACTS, {})
    assert not placement.placed and not (tmp_path / "root").exists()
    (left_out,) = placement.left_out
    return left_out.reason


@pytest.mark.parametrize("path", PATHS)
def test_a_path_of_another_folder(tmp_path: Path, path: str) -> None:
    assert "is not a plain path below a folder" in (reason := refused(tmp_path, listed(path))) and "PCL04" in reason


def test_a_companion_with_the_name_of_a_folder(tmp_path: Path) -> None:
    assert "is not the name of a companion" in refused(tmp_path, listed("a", name="../triton"))


def test_one_companion_twice_and_one_path_twice(tmp_path: Path) -> None:
    assert "listed twice" in refused(tmp_path, listed("a"), listed("b"))
    assert "is the path of two files" in refused(tmp_path, listed("a", "A"))


def test_more_bytes_than_any_start_has(tmp_path: Path) -> None:
    large = [{"path": str(n), "blobs": [{**BLOB, "size": 64 << 20}] * 100} for n in range(2)]
    assert "bytes" in refused(tmp_path, listed(files=large))


@pytest.mark.parametrize("relocations", [-1, 1_000_001])
def test_a_number_of_relocations_that_no_file_has(tmp_path: Path, relocations: int) -> None:
    """The size that is compared at a second start depends on them."""
    files = [{"path": "a", "blobs": [BLOB], "relocations": relocations}]
    assert "is not between 0 and" in refused(tmp_path, listed(files=files))
