"""A part of the cache is a link, to a file elsewhere or to another part.

A link leads wherever its owner wants at the next look, and out of the cache: none is followed, at any step. The
cache folder itself may be reached through links: whoever names it chose them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from precast.loader.resolve.cache import Cache
from tests.helpers.attacks import Refused


@pytest.mark.parametrize("place", ["index.json", "ops", "ops/scale.json"])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_a_link(path: Path, tmp_path: Path, refused: Refused, place: str, where: str) -> None:
    there = tmp_path / "elsewhere" if where == "outside" else path / "moved"
    (path / place).rename(there)
    (path / place).symlink_to(there if where == "outside" else os.path.relpath(there, (path / place).parent))
    refused(path, "no links")


@pytest.mark.parametrize("place", ["blobs", "every blob"])
def test_blobs(path: Path, tmp_path: Path, refused: Refused, place: str) -> None:
    there = tmp_path / "elsewhere"
    if place == "blobs":
        (path / "blobs").rename(there)
        (path / "blobs").symlink_to(there)
    else:
        there.mkdir()
        for blob in sorted((path / "blobs").iterdir()):
            blob.rename(there / blob.name)
            blob.symlink_to(there / blob.name)
    refused(path, "no links")


def test_a_loop(path: Path, refused: Refused) -> None:
    (path / "index.json").unlink()
    (path / "index.json").symlink_to("index.json")
    refused(path, "no links")


def test_the_folder_itself(path: Path, tmp_path: Path) -> None:
    (tmp_path / "named").symlink_to(path)
    assert Cache(tmp_path / "named").name == "demo"
