"""Numbers beyond any machine's: sizes, counts, versions, digits without end.

Every number has a bound that is checked before it is used; a number with thousands of digits is no JSON here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.attacks import Refused, edit, forge_op

HUGE = (2**31 + 1, 2**63, 2**64, -1, 10**4000)


@pytest.mark.parametrize("number", HUGE)
def test_in_the_index(path: Path, refused: Refused, number: int) -> None:
    for place in ("size", "artifacts"):

        def change(index: Any, name: str = place) -> None:
            index["ops"]["scale"][name] = number

        edit(path / "index.json", change)
        refused(path, "is not between" if number < 10**100 else "")


@pytest.mark.parametrize("number", HUGE[:4])
@pytest.mark.parametrize("place", ["blob.size", "blob.stored", "rank"])
def test_in_an_artifact(path: Path, refused: Refused, number: int, place: str) -> None:
    def change(op: object) -> None:
        for row in op["artifacts"]:  # type: ignore[index]
            target = row["blob"] if "." in place else row
            target[place.rpartition(".")[2]] = number

    forge_op(path, "scale", change)
    refused(path, "is not between")


@pytest.mark.parametrize("text", ["9" * 100_000, "1e999999", "1" + "0" * 5000])
def test_digits_without_end(path: Path, refused: Refused, text: str) -> None:
    data = (path / "index.json").read_text().replace('"version": 1', f'"version": {text}')
    (path / "index.json").write_text(data)
    refused(path, "index.json")
