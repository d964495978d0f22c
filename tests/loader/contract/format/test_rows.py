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
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import MOST_ARTIFACTS, digest, encode
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.rows import Rows, split
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.table import read_tables
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.contract.values import replace
from precast.loader.errors import CacheError, FormatError, PrecastError
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import bucketing


@pytest.fixture
def text(path: Path) -> str:
    return (path / "ops" / "scale.json").read_text()


def whole(text: str) -> list[Any]:
    """The rows, by the JSON reader alone."""
    rows = fields.as_object(fields.parse_json(text))["artifacts"]
    return [dict(fields.as_object(row)) for row in rows]


def test_rows_are_what_the_file_says(text: str) -> None:
    reader = OpReader.decode(text.encode(), op="scale")
    assert split(text.encode()) is not None and len(reader.rows) > 1
    assert list(reader.rows) == whole(text)
    assert list(reader.rows.configs) == [row["config"] for row in whole(text)]
    assert reader.rows.keys == [row["key"] for row in whole(text)]
    assert reader.index.encode() == text.encode()


MEASURED = Measured(
    gpu="NVIDIA H200",
    capability=Capability(9, 0),
    problem={"n": 8},
    times={"": 2.0},
    tilings={"": Tiling(tile={"n": 8}, at_once=1)},
)


def with_measurements(text: str) -> str:
    """The file with a measurement of its first artifact."""
    index = OpReader.decode(text.encode(), op="scale").index
    key = index.artifacts[0].key
    row = replace(MEASURED, times={key: 2.0}, tilings={key: MEASURED.tilings[""]})
    return replace(index, tuning=(row,)).encode().decode()


def test_a_table_holds_variants_that_differ_in_tuned_keys_only(text: str) -> None:
    """A choice reads the table of its dtype, and a tool all: there a problem is one measurement."""
    index = OpReader.decode(text.encode(), op="scale").index
    by_dtype: dict[object, list[str]] = {}
    for artifact in index.artifacts:
        by_dtype.setdefault(artifact.config["dtype"], []).append(artifact.key)
    assert len(by_dtype) > 1
    row = replace(MEASURED, times={a.key: 2.0 for a in index.artifacts}, tilings={})
    reader = OpReader.decode(replace(index, tuning=(row,)).encode(), op="scale")
    assert sorted(sorted(table.keys) for table in reader.tables) == sorted(map(sorted, by_dtype.values()))
    assert reader.tuning == (row,)


def test_measurements_are_parsed_at_their_first_use(text: str) -> None:
    full = with_measurements(text)
    reader = OpReader.decode(full.encode(), op="scale")
    assert len(reader.tuning) == 1 and reader.index.encode() == full.encode()
    broken = full.replace('"rows": [', '"rows": [[', 1)
    assert broken != full
    other = OpReader.decode(broken.encode(), op="scale")
    assert other.artifacts == reader.artifacts
    with pytest.raises(FormatError, match="not JSON"):
        assert other.tuning


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("1024: 0", "expected a positive number"),
        ("1024: 1e13", "expected a positive number"),
        ("1024: True", "expected a positive number"),
        ("1024: 1,2", "a time for each variant"),
        ("1024", "no variant has a time"),
        (1024, "expected str"),
    ],
)
def test_times_that_are_not_valid_are_refused(text: str, row: object, why: str) -> None:
    data = json.loads(with_measurements(text))
    data["tuning"][0]["rows"][0] = row
    reader = OpReader.decode(encode(data), op="scale")
    with pytest.raises(FormatError, match=why):
        assert reader.tuning


def test_a_time_of_an_artifact_that_is_not_there_is_refused(text: str) -> None:
    data = json.loads(with_measurements(text))
    data["tuning"][0]["variants"][0]["key"] = "f" * 64
    with pytest.raises(FormatError, match=r"no artifact has this key.*variants\.f"):
        assert OpReader.decode(encode(data), op="scale").tuning


def test_a_tiling_without_end_is_refused() -> None:
    loop: list[Any] = []
    for _ in range(100_000):
        loop = [loop]
    variant = {"key": "0" * 64, "tiling": loop}
    table = {"axes": ["n"], "capability": "9.0", "gpu": "NVIDIA H200", "rows": [], "variants": [variant]}
    with pytest.raises(FormatError, match="nests too deep"):
        read_tables([table], ["0" * 64])


@pytest.mark.parametrize("config", ['{\n    "n": 1,\n    "n": 2\n   }', '{\n    "n": NaN\n   }', "[]"])
def test_a_config_that_the_quick_parse_cannot_vouch_for_is_refused(text: str, config: str) -> None:
    begin = text.index('"config": {') + len('"config": ')
    wrong = text[:begin] + config + text[text.index("\n   }", begin) + len("\n   }") :]
    with pytest.raises(PrecastError):
        assert OpReader.decode(wrong.encode(), op="scale").artifacts


def test_the_first_lookup_gives_what_later_ones_give() -> None:
    key = Key(name="n", type="any")
    values: list[Any] = [1, True, 1.0, "1", None, [1], 2]
    bucket = bucketing((key,))
    for sign, expected in ((("n", 1), 0), (("n", "1"), 3), (None, 6)):
        rows = Rows.of([{"config": {"n": value}} for value in values])
        reader = OpReader(op="scale", keys=(key,), doc="", rows=rows, tables=tuple)
        wanted = bucket({"n": values[expected]})
        assert reader.positions(bucket, wanted, sign) == reader.positions(bucket, wanted, sign) == [expected]
    odd = OpReader(op="scale", keys=(key,), doc="", rows=Rows.of([{"config": 3}, {"config": {"n": 1}}]), tables=tuple)
    assert odd.positions(bucket, bucket({"n": 1}), ("n", 1)) == [0, 1]


VALUES = st.one_of(st.integers(-3, 30), st.sampled_from(["", "a", '"', "\n    ", "é", "1"]), st.booleans(), st.none())


@settings(max_examples=200)
@given(values=st.lists(VALUES, min_size=1, max_size=8), other=VALUES)
def test_a_search_for_a_field_gives_every_row_that_has_it(values: list[Any], other: Any) -> None:
    """Before the configs of all are parsed, and after: the rows that a lookup gets are the same."""
    some = [{"config": {"m": other, "n": n}, "key": f"{at:064}", "z": {"n": values[0]}} for at, n in enumerate(values)]
    data = json.dumps({"artifacts": some, "doc": ""}, sort_keys=True, indent=1).encode()
    key = Key(name="n", type="any")
    bucket = bucketing((key,))
    for value in values:
        if type(value) not in (int, str):
            continue
        found = split(data)
        assert found is not None
        reader = OpReader(op="scale", keys=(key,), doc="", rows=found[1], tables=tuple)
        expected = [at for at, n in enumerate(values) if type(n) is type(value) and n == value]
        having = found[1].having("n", value)
        assert having is not None and set(expected) <= set(having)
        first = reader.positions(bucket, bucket({"n": value}), ("n", value))
        assert first == expected == reader.positions(bucket, bucket({"n": value}), ("n", value))


def test_a_field_that_many_rows_have_is_not_searched_for() -> None:
    some = [{"config": {"n": at % 2}, "key": f"{at:064}"} for at in range(200)]
    found = split(json.dumps({"artifacts": some, "doc": ""}, sort_keys=True, indent=1).encode())
    assert found is not None and found[1].having("n", 1) is None and found[1].having("n", 2) == []
    reader = OpReader(op="scale", keys=(), doc="", rows=found[1], tables=tuple)
    bucket = bucketing((Key(name="n", type="int"),))
    assert reader.positions(bucket, bucket({"n": 1}), ("n", 1)) == list(range(1, 200, 2))


def test_a_lookup_does_not_parse_the_configs_of_all_rows() -> None:
    """A row that is broken is found when it is needed."""
    rows = [f'  {{\n   "config": {{\n    "n": {n}\n   }},\n   "key": "{n:064}"\n  }}' for n in range(3)]
    data = '{\n "artifacts": [\n' + ",\n".join(rows) + '\n ],\n "doc": ""\n}'
    found = split(data.replace('"n": 2', '"n": nothing').encode(), "scale.json")
    assert found is not None
    reader = OpReader(op="scale", keys=(), doc="", rows=found[1], tables=tuple)
    bucket = bucketing((Key(name="n", type="int"),))
    assert reader.positions(bucket, bucket({"n": 1}), ("n", 1)) == [1]
    with pytest.raises(CacheError, match=r"^scale\.json: not JSON.*Rebuild or reinstall the cache"):
        reader.positions(bucket, bucket({"n": 0}), ("n", 0))


@pytest.mark.parametrize("indent", [None, 0, 2, "\t"])
def test_another_layout_is_read_whole(text: str, indent: Any) -> None:
    other = json.dumps(json.loads(text), indent=indent)
    assert split(other.encode()) is None
    assert OpReader.decode(other.encode(), op="scale").artifacts == OpReader.decode(text.encode(), op="scale").artifacts


def test_an_empty_config_and_one_of_lists() -> None:
    rows = [{"config": {}, "key": "0" * 64}, {"config": {"a": [[1], "\n  },\n"], "b": {"c": {}}}, "key": "1" * 64}]
    for some in (rows, rows[:1], rows[1:], rows[::-1]):
        found = split(
            json.dumps({"artifacts": some, "doc": '\n ],\n "artifacts": [\n'}, sort_keys=True, indent=1).encode()
        )
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
    apart = split(edited.encode())
    if apart is None:
        return
    try:
        fields.read_json(apart[0], limit=len(apart[0]))
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
    assert split(other.encode()) is None
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
    rows = Rows(text.encode(), [(0, len(text))])
    with pytest.raises(CacheError, match="not formatted as the other rows are in 'artifacts\\[0\\]'"):
        rows[0]


def test_a_file_has_no_endless_rows(text: str) -> None:
    row = '  {\n   "config": {},\n   "key": "%d"\n  }'
    for count in (MOST_ARTIFACTS, MOST_ARTIFACTS + 1):
        rows = ",\n".join([row % n for n in range(count)])
        other = f'{{\n "artifacts": [\n{rows}\n ],\n "doc": "",\n "format": "precast-op",\n "keys": [],\n "op": "scale"'
        if count == MOST_ARTIFACTS:
            parts = split(other.encode())
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
