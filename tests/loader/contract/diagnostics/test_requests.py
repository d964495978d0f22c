"""The lines of requests: written and read back, and nothing else than such a line is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precast.loader.contract.diagnostics.requests import (
    ManifestEntry,
    RequestRecord,
    combined,
    read_requests,
)
from precast.loader.contract.values import replace
from precast.loader.errors import FormatError

NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
PLAIN = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(-1e6, 1e6).map(abs) | st.text(max_size=9)
VALUES = st.dictionaries(
    NAMES, st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3), max_leaves=5), max_size=4
)
TARGETS = st.sampled_from([None, "sm_90a", "sm_100a"])
WANTED = st.builds(
    ManifestEntry,
    op=st.sampled_from(["scale", "acme.norm"]),
    function=st.sampled_from([None, "acme.norms:compile", "quack.softmax:Softmax.compile@quack"]),
    config=VALUES,
    tuned=VALUES,
    parts=st.sampled_from([(), ("main", "rest")]),
    env=st.dictionaries(NAMES, st.text(max_size=5), max_size=2),
    target=TARGETS,
)
ENDS = st.sampled_from([{"found": "ab" * 32, "cache": "demo"}, {"missing": "VariantNotFound: no variant fits"}])
REQUESTS = st.builds(
    lambda end, **more: RequestRecord(**end, **more),
    end=ENDS,
    op=st.sampled_from(["scale", "acme.norm"]),
    config=VALUES,
    target=TARGETS,
    capability=st.sampled_from([None, "9.0"]),
    problem=st.none() | st.dictionaries(NAMES, st.integers(0, 2**60), min_size=1, max_size=3),
    wanted=st.none() | WANTED,
    count=st.integers(1, 1000),
)


@given(st.lists(REQUESTS, max_size=6))
def test_what_was_written_is_read(requests: list[RequestRecord]) -> None:
    data = b"".join(one.line for one in requests)
    found = read_requests(data)
    assert not found.cut and found.requests == combined(requests)
    assert sum(one.count for one in found.requests) == sum(one.count for one in requests)


@given(st.lists(REQUESTS, min_size=1, max_size=3), st.data())
def test_a_last_line_that_was_cut_is_left_out(requests: list[RequestRecord], data: Any) -> None:
    *whole, last = [one.line for one in requests]
    cut = data.draw(st.integers(1, len(last) - 2))
    found = read_requests(b"".join(whole) + last[:cut])
    assert found.cut and found.requests == combined(requests[:-1])


def test_another_broken_line_is_an_error_with_its_number() -> None:
    line = RequestRecord(op="scale", config={}, missing="none").line
    with pytest.raises(FormatError, match=r"line 2 of the requests: not JSON.*: remove it"):
        read_requests(line + b'{"op": "sca\n' + line)
    with pytest.raises(FormatError, match="line 2 of the requests"):
        read_requests(line + b"{}\n")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        read_requests(data)
    except FormatError as error:
        assert "of the requests" in str(error)


JSON = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))


@given(REQUESTS, st.data())
def test_a_changed_field_is_read_or_refused(request_: RequestRecord, data: Any) -> None:
    value = request_.to_json()
    inside = value.get("wanted")
    place = inside if inside and data.draw(st.booleans()) else value
    place[data.draw(st.sampled_from(sorted(place)))] = data.draw(JSON)
    try:
        one = RequestRecord.parse(json.loads(json.dumps(value)))
    except FormatError:
        return
    assert RequestRecord.parse(json.loads(one.line)) == one


@pytest.mark.parametrize(
    "change",
    [
        {"op": "Scale"},
        {"op": "scale\n  - kernel: evil"},
        {"missing": None},
        {"found": "ab" * 32},
        {"missing": "one\ntwo"},
        {"count": -1},
        {"count": True},
        {"problem": {"m": -1}},
        {"config": {"a b": 1}},
        {"config": {"a": {"b": 1}}},
        {"wanted": {"op": "scale", "config": {}, "tuned": {}, "function": "os:system; x"}},
        {"wanted": {"op": "scale", "config": {}, "tuned": {}, "target": "sm_1"}},
        {"wanted": {"op": "scale", "config": {}, "tuned": {}, "env": {"A": 1}}},
        {"more": 1},
    ],
)
def test_what_is_refused(change: dict[str, Any]) -> None:
    good = RequestRecord(op="scale", config={}, missing="none").to_json()
    with pytest.raises(FormatError):
        RequestRecord.parse({**good, **change})


def test_counts_add_up_and_the_rest_keeps_them_apart() -> None:
    one = RequestRecord(op="scale", config={}, missing="none", count=2)
    other = replace(one, problem={"m": 1})
    assert combined([one, other, one]) == combined([replace(one, count=4), other])
