"""A key occurs twice, so that two readers of one file see two things; two artifacts have one key.

JSON with a key twice is refused wherever it is looked at; so is a list with one artifact's key twice.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.attacks import Refused, edit, forge, forge_op


@pytest.mark.parametrize("word", ['"name"', '"ops"', '"version"'])
def test_in_the_index(path: Path, refused: Refused, word: str) -> None:
    text = (path / "index.json").read_text()
    (path / "index.json").write_text(text.replace(word, f"{word}: 0, {word}", 1))
    refused(path, "the key occurs twice")


def test_escapes_do_not_hide_it(path: Path, refused: Refused) -> None:
    text = (path / "index.json").read_text()
    (path / "index.json").write_text(text.replace('"name"', '"n\\u0061me": "x", "name"', 1))
    refused(path, "the key occurs twice")


def test_in_an_artifact(path: Path, refused: Refused) -> None:
    text = (path / "ops" / "scale.json").read_text()
    forge(path, "scale", text.replace('"symbol"', '"symbol": "system", "symbol"').encode())
    refused(path, "the key occurs twice")


def test_an_artifact_that_the_index_does_not_count(path: Path, refused: Refused) -> None:
    """One was added to, or dropped from, an op's file whose digest the index has."""
    edit(path / "index.json", lambda index: index["ops"]["scale"].update(artifacts=11))
    refused(path, "it lists 12 artifacts, not 11")


def test_two_artifacts(path: Path, refused: Refused) -> None:
    def change(op: object) -> None:
        op["artifacts"][1]["key"] = op["artifacts"][0]["key"]  # type: ignore[index]

    forge_op(path, "scale", change)
    refused(path, "the key occurs twice")
