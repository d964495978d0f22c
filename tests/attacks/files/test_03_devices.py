"""A part of the cache is a pipe, a socket, a device or a folder: reading would wait for ever, or have no end.

It is opened without waiting, and refused unless it is a regular file.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from precast.loader.contract.format.index import OP_LIMIT
from tests.helpers.attacks import Refused, edit


@pytest.mark.parametrize("place", ["index.json", "ops/scale.json"])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file(path: Path, refused: Refused, place: str, kind: str) -> None:
    (path / place).unlink()
    os.mkfifo(path / place) if kind == "pipe" else (path / place).mkdir()
    refused(path, "not a regular file")


def test_a_socket(path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    (path / "index.json").unlink()
    monkeypatch.chdir(path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("index.json")
        refused(path, "index.json")


def test_a_device(path: Path, refused: Refused) -> None:
    (path / "ops" / "scale.json").unlink()
    try:
        os.mknod(path / "ops" / "scale.json", 0o644 | 0o020000, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        (path / "ops" / "scale.json").symlink_to("/dev/zero")
    edit(path / "index.json", lambda index: index["ops"]["scale"].update(size=OP_LIMIT))
    refused(path, "ops/scale.json")
