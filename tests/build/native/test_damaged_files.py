"""An op's file with random damage, whose digest the index has: both readers serve the same of it, or refuse it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast import loader
from precast.loader.resolve.candidate import Request
from precast.loader.session import Session
from tests.helpers.attacks import edit, forge
from tests.helpers.native.libprecast import LibprecastReader

TOKENS = (
    "null", "true", "-1", "1e5", "0.5", '""', "[]", "{}", '"x"', "99999999999999999999", '{"a":1}',
    r'"\ud800"', r'"\u00e9"', "NaN", ",", ":", '"', "[", "}", "\\", "0", '"key"', "1e999", "-0", "01",
)  # fmt: skip
VALUE = re.compile(r'"[a-z_0-9]*"|-?\d+|true|false|null')
SERVED = re.compile(r"  (?:taken|fits) +\S+ +\S+ +([0-9a-f]{12})  ")
Damage = tuple[str, int, str]
DAMAGES = st.tuples(st.sampled_from(("byte", "cut", "value", "insert")), st.integers(0, 10**6), st.sampled_from(TOKENS))


def damaged(text: str, damage: Damage) -> str:
    kind, where, token = damage
    place = where % max(1, len(text))
    if kind == "byte":
        return text[:place] + chr(where % 127) + text[place + 1 :]
    if kind == "cut":
        return text[:place] + text[place + 1 + where % 4 :]
    if kind == "insert":
        return text[:place] + token + text[place:]
    values = list(VALUE.finditer(text))
    if not values:
        return text
    chosen = values[where % len(values)]
    return text[: chosen.start()] + token + text[chosen.end() :]


@pytest.fixture
def whole(path: Path) -> str:
    """The file of two variants, with an assumption and a measurement."""
    op = json.loads((path / "ops" / "scale.json").read_bytes())
    rows = [row for row in op["artifacts"] if row["config"]["dtype"] == "bfloat16" and row["target"] == "sm_90a"]
    rows[0]["assumes"] = {"needs": {"warp_size": 32}, "speed": {}}
    first, second = (row["key"] for row in rows)
    variants: list[Any] = [{"key": first, "tiling": {"tile": {"m": 64}, "at_once": 132}}, {"key": second}]
    table = {"capability": "9.0", "gpu": "G", "axes": ["m", "n"], "variants": variants}
    table["rows"] = ["1,2: 2,1"]
    edit(path / "index.json", lambda index: index["ops"]["scale"].update(artifacts=2))
    return json.dumps({**op, "artifacts": rows, "tuning": [table]})


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(damages=st.lists(DAMAGES, min_size=1, max_size=3), problem=st.none() | st.just({"m": 1, "n": 2}))
def test_both_serve_the_same(
    damages: list[Damage], problem: Any, path: Path, whole: str, libprecast: LibprecastReader
) -> None:
    text = whole
    for damage in damages:
        text = damaged(text, damage)
    forge(path, "scale", text.encode())
    answer = libprecast.ask(path, config={"dtype": "bf16"}, command="explain", problem=problem)
    try:
        found = Session(str(path)).explain(
            Request(op="scale", config={"dtype": "bf16"}, target="sm_90a", problem=problem)
        )
    except loader.PrecastError as error:
        with pytest.raises(type(error)):
            answer.value()
        return
    keys = [match[1] for match in map(SERVED.match, answer.value().split("\n")) if match]
    assert keys == [one.candidate.artifact.key[:12] for one in found.accepted]


def test_undamaged(path: Path, whole: str, libprecast: LibprecastReader) -> None:
    """The measurement decides: without it the other variant is first."""
    forge(path, "scale", whole.encode())
    answers = [
        libprecast.ask(path, config={"dtype": "bf16"}, command="explain", problem=problem).value()
        for problem in (None, {"m": 1, "n": 2})
    ]
    served = [[m[1] for m in map(SERVED.match, text.split("\n")) if m] for text in answers]
    assert served[0] == served[1][::-1] and len(served[0]) == 2


@pytest.mark.parametrize("commas", [0, 15, 3279, 3280, 100_000])
def test_a_row_without_any_time_is_left_out(commas: int, path: Path, whole: str, libprecast: LibprecastReader) -> None:
    """It is read into memory that is just long enough for it, which sanitizers watch."""
    forge(path, "scale", whole.replace("1,2: 2,1", "1,2: " + commas * ",").encode())
    answer = libprecast.ask(path, config={"dtype": "bf16"}, command="explain", problem={"m": 1, "n": 2}).value()
    assert "the measurements of the cache were left out" in answer and "in 'tuning[0].rows[0]': build the" in answer
