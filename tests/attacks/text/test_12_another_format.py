"""An older and a newer format, another format, and a format that is newer in a part.

A reader knows one version. Guessing at another would launch wrong code.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attacks import Refused, edit, forge_op


@pytest.mark.parametrize(("version", "words"), [(0, "rebuild the cache"), (2, "upgrade precast-loader")])
def test_another_version(path: Path, refused: Refused, version: int, words: str) -> None:
    edit(path / "index.json", lambda index: index.update(version=version))
    refused(path, "this reader knows version 1", words)


@pytest.mark.parametrize(("version", "words"), [(0, "rebuild the cache"), (2, "upgrade precast-loader")])
def test_an_op_of_another_version(path: Path, refused: Refused, version: int, words: str) -> None:
    forge_op(path, "scale", lambda op: op.update(version=version))
    refused(path, words)


@pytest.mark.parametrize("format", ["precast-op", "safetensors", ""])
def test_another_format(path: Path, refused: Refused, format: str) -> None:
    edit(path / "index.json", lambda index: index.update(format=format))
    refused(path, "is not 'precast-cache'")


def test_something_new_in_it(path: Path, refused: Refused) -> None:
    """A key that this reader does not know may change what the others mean."""
    edit(path / "index.json", lambda index: index.update(meaning="otherwise"))
    refused(path, "unknown key in 'meaning'")


def test_the_file_of_another_op(path: Path, refused: Refused) -> None:
    forge_op(path, "scale", lambda op: op.update(op="twice"))
    refused(path, "this is not the file of 'scale'")
