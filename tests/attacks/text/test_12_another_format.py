"""Another version of the format, another format, and fields that the format does not have.

A reader reads one version. Guessing at another would launch wrong code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.attacks import Refused, edit, forge_op

OTHERS = [
    (9, "the cache has format version 9; this ", " reads version 1: upgrade "),
    (2**63, "the cache has format version 9223372036854775808; this ", " reads version 1: upgrade "),
    (0, "the cache has format version 0; this ", " reads version 1: rebuild the cache"),
    (-1, "the cache has format version -1; this ", " reads version 1: rebuild the cache"),
    ("1", "expected int, got str in 'version'. Rebuild or reinstall the cache", ""),
    (True, "expected int, got bool in 'version'. Rebuild or reinstall the cache", ""),
    (1.0, "expected int, got float in 'version'. Rebuild or reinstall the cache", ""),
    (None, "expected int, got null in 'version'. Rebuild or reinstall the cache", ""),
]


@pytest.mark.parametrize(("version", "found", "reads"), OTHERS)
def test_another_version(path: Path, refused: Refused, version: object, found: str, reads: str) -> None:
    edit(path / "index.json", lambda index: index.update(version=version))
    error = refused(path, "index.json: ", found, reads)
    assert str(error).count("ebuild") + str(error).count("pgrade") == 1, "one way out"


def test_a_host_without_its_library(path: Path, refused: Refused) -> None:
    edit(path / "index.json", lambda index: index["runtimes"][0].pop("blob"))
    refused(path, "missing in 'runtimes[0].blob'")
    edit(path / "index.json", lambda index: index["runtimes"][0].pop("soname"))
    refused(path, "missing in 'runtimes[0].soname'")


@pytest.mark.parametrize(("version", "found", "reads"), OTHERS)
def test_an_op_of_another_version(path: Path, refused: Refused, version: object, found: str, reads: str) -> None:
    forge_op(path, "scale", lambda op: op.update(version=version))
    refused(path, "scale.json: ", found, reads)


def test_an_unknown_field_of_an_artifact(path: Path, refused: Refused) -> None:
    """A launch plan, for example, is what an author writes; a cache holds the host program that is made of it."""
    forge_op(path, "scale", lambda op: op.update(artifacts=[{**one, "plan": {}} for one in op["artifacts"]]))
    refused(path, "no variant fits", "unknown key in ", ".plan")


@pytest.mark.parametrize(
    ("assumes", "words"),
    [
        ({"needs": {}, "speed": {}}, "expected at least one fact"),
        ({"needs": {"multiprocessor_count": 132}}, "missing"),
        ({"needs": {"multiprocessor_count": True}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"multiprocessor_count": None}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"multiprocessor_count": 1 << 70}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"name": "x\ny"}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"name": "\ud800"}, "speed": {}}, "expected a number or a text"),
        ({"needs": {"two words": 1}, "speed": {}}, "not the name of a fact"),
        ({"needs": {"warp_size": 1}, "speed": {"warp_size": 1}}, "the fact is also in needs"),
        ({"needs": {"warp_size": 1}, "speed": {}, "hope": {}}, "unknown key in"),
        ([], "expected"),
    ],
)
def test_assumptions_that_are_none(path: Path, refused: Refused, assumes: object, words: str) -> None:
    def change(op: dict[str, Any]) -> None:
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
