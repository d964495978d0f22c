"""NaN and infinities, which compare as nothing does, and which JSON does not have.

The reader refuses the words; a config value that is not finite is refused from the caller, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from precast import loader
from tests.helpers.attacks import Refused, forge

WORDS = ("NaN", "Infinity", "-Infinity")


@pytest.mark.parametrize(
    ("place", "word", "reason"),
    [
        *[(place, word, "is not a number that a file may hold") for place in ("rank", "threads") for word in WORDS],
        ("rank", "1e400", "expected int, got float"),
        ("threads", "1e400", "inf is not a config value: use a finite number"),
    ],
)
def test_in_a_file(path: Path, refused: Refused, place: str, word: str, reason: str) -> None:
    import re

    text = (path / "ops" / "scale.json").read_text()
    forge(path, "scale", re.sub(rf'"{place}": [0-9]+', f'"{place}": {word}', text).encode())
    refused(path, reason)


@pytest.mark.parametrize("word", ["NaN", "Infinity"])
def test_in_the_index(path: Path, refused: Refused, word: str) -> None:
    text = (path / "index.json").read_text()
    (path / "index.json").write_text(text.replace('"version": 1', f'"version": {word}'))
    refused(path, "is not a number that a file may hold")


def test_from_the_caller() -> None:
    from precast.loader.contract.format.config import Key

    for value in (float("nan"), float("inf")):
        with pytest.raises(loader.ConfigError, match="use a finite number"):
            Key(name="eps", type="float").normal(value)
