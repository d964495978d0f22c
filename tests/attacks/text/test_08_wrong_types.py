"""Every value of the index, and of an op's file, is replaced by one of another type.

Each is read through a getter that asks for exactly its type; a bool is no number, a number no text.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from precast import loader
from precast.loader.contract.format.index import Index
from precast.loader.contract.format.op_reader import OpReader

VALUES: tuple[Any, ...] = (None, True, 0, -1, 1.5, "", "x", "\ud800", [], [None], {}, {"a": None}, [[]], 2**70)
FREE = ("provenance", "evidence", "doc", "default", "config", "value")  # may hold anything, or anything plain


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*here, key)
        yield from places(item, (*here, key))


def changed(data: Any, place: tuple[Any, ...], value: Any) -> bytes:
    data = copy.deepcopy(data)
    inner = data
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return json.dumps(data).encode()


def attack(data: Any, read: Any) -> int:
    refused = 0
    for place in places(data):
        for value in VALUES:
            try:
                read(changed(data, place, value))
            except loader.PrecastError as error:
                refused += 1
                assert len(str(error)) < 2000
            else:
                known = {type(v) for v in [_at(data, place)]}
                fine = any(step in FREE for step in place) or type(value) in known or _optional(place)
                assert fine, f"{place} may be {value!r}"
    return refused


def _at(data: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        data = data[step]
    return data


def _optional(place: tuple[Any, ...]) -> bool:
    return place[-1] in ("host", "dictionary") or "shape" in place


def test_the_index(path: Path) -> None:
    assert attack(json.loads((path / "index.json").read_bytes()), Index.decode) > 200


def test_an_op(path: Path) -> None:
    data = json.loads((path / "ops" / "scale.json").read_bytes())
    data["artifacts"] = data["artifacts"][:1]

    def read(text: bytes) -> Any:
        return OpReader.decode(text, op="scale").artifacts

    assert attack(data, read) > 400


def test_roots_that_are_no_objects() -> None:
    for value in VALUES:
        for read in (Index.decode, lambda data: OpReader.decode(data, op="scale")):
            try:
                read(json.dumps(value).encode())
            except loader.PrecastError:
                continue
            raise AssertionError(f"{value!r} was read")
