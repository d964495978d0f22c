"""An op's file that is read row by row says what it says when it is read whole, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast import loader
from precast.loader.contract.format import fields
from precast.loader.contract.format.index import MOST_ARTIFACTS, digest
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.rows import Rows, split
from precast.loader.errors import CacheError, FormatError, PrecastError
from precast.loader.resolve.cache import Cache


@pytest.fixture
def text(path: Path) -> str:
    return (path / "ops" / "scale.json").read_text()


def whole(text: str) -> list[Any]:
    """The rows, by the JSON reader alone."""
    rows = fields.as_object(fields.parse_json(text))["artifacts"]
    return [dict(fields.as_object(row)) for row in rows]


def test_rows_are_what_the_file_says(text: str) -> None:
    reader = OpReader.decode(text.encode(), op="scale")
    assert split(text) is not None and len(reader.rows) > 1
    assert list(reader.rows) == whole(text)
    assert list(reader.rows.configs) == [row["config"] for row in whole(text)]
    assert reader.rows.keys == [row["key"] for row in whole(text)]
    assert reader.index.encode() == text.encode()


@pytest.mark.parametrize("indent", [None, 0, 2, "\t"])
def test_another_layout_is_read_whole(text: str, indent: Any) -> None:
    other = json.dumps(json.loads(text), indent=indent)
    assert split(other) is None
    assert OpReader.decode(other.encode(), op="scale").artifacts == OpReader.decode(text.encode(), op="scale").artifacts


def test_an_empty_config_and_one_of_lists() -> None:
    rows = [{"config": {}, "key": "0" * 64}, {"config": {"a": [[1], "\n  },\n"], "b": {"c": {}}}, "key": "1" * 64}]
    for some in (rows, rows[:1], rows[1:], rows[::-1]):
        found = split(json.dumps({"artifacts": some, "doc": '\n ],\n "artifacts": [\n'}, sort_keys=True, indent=1))
        assert found is not None and list(found[1]) == some and list(found[1].configs) == [r["config"] for r in some]
        assert json.loads(found[0])["artifacts"] == []


LINES = st.sampled_from(
    [
        "  },", "  {", " ],", "  }", "   },", "   {", ' "artifacts": [', ' "doc": "",', ' ],\n "doc": "",',
        '   "config": {', '   "key": "x",', "{", "}", "",
    ]
)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(data=st.data())
def test_no_edit_makes_it_say_something_else(text: str, data: st.DataObject) -> None:
    """Lines are lost, doubled, exchanged and put in: what is then read by rows is what is read whole, or an error."""
    lines = text.split("\n")
    for _ in range(data.draw(st.integers(1, 3))):
        at, other = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        match data.draw(st.sampled_from(["lose", "double", "exchange", "put"])):
            case "lose":
                del lines[at]
            case "double":
                lines.insert(at, lines[at])
            case "exchange":
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                lines.insert(at, data.draw(LINES))
    edited = "\n".join(lines)
    try:
        expected: Any = whole(edited)
    except (PrecastError, KeyError, TypeError):
        expected = None
    apart = split(edited)
    if apart is None:
        return
    try:
        fields.parse_json(apart[0])
        found: Any = list(apart[1])
    except PrecastError:
        return
    assert found == expected


def damage(path: Path, row: int) -> None:
    """Give a row a key twice, and the file the digest that the index then has to have."""
    file, index = path / "ops" / "scale.json", path / "index.json"
    parts = file.read_text().split('   "symbol"')
    parts[row + 1] = ': "other",\n   "symbol"' + parts[row + 1]
    file.write_text('   "symbol"'.join(parts))
    root = json.loads(index.read_bytes())
    root["ops"]["scale"] |= {"sha256": digest(file.read_bytes()), "size": file.stat().st_size}
    index.write_text(json.dumps(root))


def test_a_damaged_row_is_an_error_for_whoever_looks_at_it(path: Path, use: Callable[..., None]) -> None:
    before = [row["key"] for row in whole((path / "ops" / "scale.json").read_text())]
    damage(path, 1)
    op = Cache(path).op("scale")
    assert op.artifact(0).key == before[0]
    with pytest.raises(CacheError, match=r"scale\.json: the key occurs twice in 'artifacts\[1\]\.symbol'. Rebuild"):
        op.artifact(1)
    use(path)
    with pytest.raises(CacheError, match="the key occurs twice"):
        loader.explain("scale", {"dtype": "bf16"}, target="sm_90a")


def test_a_layout_that_only_looks_like_it(text: str) -> None:
    other = text.replace("[\n  {\n", "[\n{\n", 1)
    assert split(other) is None
    assert OpReader.decode(other.encode(), op="scale").artifacts == OpReader.decode(text.encode(), op="scale").artifacts


@pytest.mark.parametrize(
    "lines",
    [
        ['"a": {', '"config": {', ' "n": 2', "}},", '"config": {', ' "n": 1', "},", f'"key": "{"0" * 64}"'],
        ['"config": {', ' "n": 1', "},", f'"key": "\\u0030{"0" * 63}"'],
        ['"config": {', ' "n": 1', "},", '"a": {', f'"key": "{"1" * 64}"', "},", f'"key": "{"0" * 64}"'],
    ],
)
def test_a_row_that_shows_one_thing_and_says_another(lines: list[str]) -> None:
    text = "\n".join(["  {", *(f"   {line}" for line in lines), "  }"])
    rows = Rows(text, [(0, len(text))])
    with pytest.raises(CacheError, match="not formatted as the other rows are in 'artifacts\\[0\\]'"):
        rows[0]


def test_a_file_has_no_endless_rows(text: str) -> None:
    row = '  {\n   "config": {},\n   "key": "%d"\n  }'
    for count in (MOST_ARTIFACTS, MOST_ARTIFACTS + 1):
        rows = ",\n".join([row % n for n in range(count)])
        other = f'{{\n "artifacts": [\n{rows}\n ],\n "doc": "",\n "format": "precast-op",\n "keys": [],\n "op": "scale"'
        if count == MOST_ARTIFACTS:
            parts = split(other)
            assert parts is not None and len(parts[1]) == count
        else:
            with pytest.raises(FormatError, match="more than the 200000 items"):
                OpReader.decode(other.encode(), op="scale")


def test_a_row_has_no_endless_values(text: str) -> None:
    """It is refused when it is needed: the others may be fine."""
    key = '"provenance": {}'
    assert key in text
    many = text.replace(key, '"provenance": {"x": [' + "[], " * 100_000 + "[]]}", 1)
    reader = OpReader.decode(many.encode(), op="scale")
    assert reader.artifact(1)
    with pytest.raises(CacheError, match="more than the 100000 values"):
        reader.artifact(0)
