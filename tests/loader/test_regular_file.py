"""A file is read whole, in as many parts as it comes in."""

from __future__ import annotations

import os

import pytest

from precast.loader.regular_file import read_at_most


@pytest.mark.parametrize("part", [1, 3, 100])
@pytest.mark.parametrize("size", [0, 2, 10, 50])  # what was said of it: it may have grown, or shrunk
@pytest.mark.parametrize("most", [1, 7, 10, 11, 100])
def test_any_parts_and_sizes(monkeypatch: pytest.MonkeyPatch, part: int, size: int, most: int) -> None:
    content = b"0123456789"
    place = 0

    def read(file: int, count: int) -> bytes:
        nonlocal place
        data = content[place : place + min(count, part)]
        place += len(data)
        return data

    monkeypatch.setattr(os, "read", read)
    assert read_at_most(0, most, size) == content[:most] or place == size != len(content)
