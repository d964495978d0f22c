"""An older and a newer format, another format, and a format that is newer in a part.

A reader knows one version. Guessing at another would launch wrong code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.attacks import Refused, edit, forge_op


@pytest.mark.parametrize(("version", "words"), [(0, "rebuild the cache"), (5, "upgrade precast")])
def test_another_version(path: Path, refused: Refused, version: int, words: str) -> None:
    edit(path / "index.json", lambda index: index.update(version=version))
    refused(path, "this reader knows version", words)


def test_a_host_without_its_library(path: Path, refused: Refused) -> None:
    edit(path / "index.json", lambda index: index["runtimes"][0].pop("blob"))
    refused(path, "missing in 'runtimes[0].blob'")
    edit(path / "index.json", lambda index: index["runtimes"][0].pop("soname"))
    refused(path, "missing in 'runtimes[0].soname'")


@pytest.mark.parametrize(("version", "words"), [(0, "rebuild the cache"), (5, "upgrade precast")])
def test_an_op_of_another_version(path: Path, refused: Refused, version: int, words: str) -> None:
    forge_op(path, "scale", lambda op: op.update(version=version))
    refused(path, words)


def test_a_field_of_a_later_version(path: Path, refused: Refused) -> None:
    """A file says which version it is of: a reader of that version would not see what must hold."""
    assumes = {"needs": {"multiprocessor_count": 132}, "speed": {}}
    forge_op(path, "scale", lambda op: op.update(artifacts=[{**one, "assumes": assumes} for one in op["artifacts"]]))
    refused(path, "no variant fits", "a file of version 1 has no such field")


@pytest.mark.parametrize(
    ("assumes", "words"),
    [
        ({"needs": {}, "speed": {}}, "it names no fact"),
        ({"needs": {"multiprocessor_count": 132}}, "missing"),
        ({"needs": {"multiprocessor_count": True}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"multiprocessor_count": None}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"multiprocessor_count": 1 << 70}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"name": "x\ny"}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"name": "\ud800"}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"two words": 1}, "speed": {}}, "not the name of a fact"),
        ({"needs": {"warp_size": 1}, "speed": {"warp_size": 1}}, "stands under needs, too"),
        ({"needs": {"warp_size": 1}, "speed": {}, "hope": {}}, "unknown key in"),
        ([], "expected"),
    ],
)
def test_assumptions_that_are_none(path: Path, refused: Refused, assumes: object, words: str) -> None:
    def change(op: dict[str, Any]) -> None:
        op["version"] = 2
        for one in op["artifacts"]:
            one["assumes"] = assumes

    forge_op(path, "scale", change)
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
