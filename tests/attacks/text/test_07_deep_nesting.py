"""Lists in lists in lists, until a reader's stack ends.

The JSON reader's own limit becomes a typed error; configs and signatures have a small depth of their own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.attacks import Refused, forge, forge_op


@pytest.mark.parametrize("depth", [3_000, 200_000])
def test_in_a_file(path: Path, refused: Refused, depth: int) -> None:
    text = (path / "ops" / "scale.json").read_text()
    deep = '"provenance": ' + "[" * depth + "]" * depth + ', "x"'
    forge(path, "scale", text.replace('"provenance"', deep).encode())
    refused(path)
    (path / "index.json").write_text("[" * depth)
    refused(path, "JSON")


def test_in_a_config(path: Path, refused: Refused) -> None:
    value: object = 1
    for _ in range(40):
        value = [value]

    def change(op: object) -> None:
        for row in op["artifacts"]:  # type: ignore[index]
            row["config"]["extra"] = value

    forge_op(path, "scale", change)
    refused(path, "lists nest deeper than 12 levels")


def test_in_a_signature(path: Path, refused: Refused) -> None:
    argument: dict[str, object] = {"name": "x", "kind": "tuple"}
    for _ in range(40):
        argument = {"name": "x", "kind": "tuple", "members": [json.loads(json.dumps(argument))]}

    def change(op: object) -> None:
        for row in op["artifacts"]:  # type: ignore[index]
            row["signature"]["arguments"] = [argument]

    forge_op(path, "scale", change)
    refused(path, "arguments nest deeper")
