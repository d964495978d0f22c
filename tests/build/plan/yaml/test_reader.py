"""The YAML that precast reads: what each scalar is, where it stands, and that nothing else gets through."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from precast.build.errors import ManifestError
from precast.build.plan.manifest import Manifest, parse_manifest
from precast.build.plan.yaml import reader
from precast.build.plan.yaml.reader import read_yaml


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-6", 1e-6), ("1.5e+3", 1500.0), ("-2E4", -20000.0), (".5", 0.5), ("3.", 3.0), ("-0", 0),
        ("42", 42), ("+7", 7), ("0x1F", 31), ("0o17", 15),
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None),
        ("2026-01-02", "2026-01-02"), ("12:30:45", "12:30:45"), ("a:b", "a:b"), ("<<", "<<"), ("n", "n"),
        ("1.2.3", "1.2.3"), ("128x64", "128x64"), ("+", "+"), ("'yes'", "yes"), ('"010"', "010"), ("9" * 80, "9" * 80),
    ],
)  # fmt: skip
def test_scalars(text: str, value: Any) -> None:
    found = read_yaml(f"k: {text}\n".encode(), "m.yaml").plain()["k"]
    assert found == value and type(found) is type(value)


def test_keys_are_always_text() -> None:
    assert read_yaml(b"{on: 1, 1: 2, null: 3, 1e3: 4}", "m.yaml").plain() == {"on": 1, "1": 2, "null": 3, "1e3": 4}


def test_every_value_knows_its_place() -> None:
    node = read_yaml("ä: [1,\n  {b: c}]\n".encode(), "m.yaml").value
    assert isinstance(node, dict)
    items = node["ä"].value
    assert isinstance(items, tuple) and isinstance(items[1].value, dict)
    assert [tuple(n.at)[1:] for n in (node["ä"], *items, items[1].value["b"])] == [(1, 4), (1, 5), (2, 3), (2, 7)]
    assert tuple(items[1].value["b"].named_at)[1:] == (2, 4)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "m.yaml:1:1: the file is empty: start it with 'version: 1'"),
        (b"# a comment\n", "m.yaml:1:1: the file is empty"),
        (b"a: b\nc: \xff", "m.yaml:2:1: not UTF-8 text: save the file as UTF-8"),
        (b"a: \x00", "m.yaml:1:4: not YAML: "),
        (b"a: '\x1b[31m'", "m.yaml:1:5: not YAML: "),
        (b'a: "\\x1b[31m"', "m.yaml:1:4: the character U+001B is in a text: remove it"),
        (b'a: "\\ud800"', "m.yaml:1:"),
        (b"- *x", "m.yaml:1:3: '*x': aliases are not read: write the value out"),
        (b"*x : 1", "m.yaml:1:1: '*x': aliases are not read"),
        (b"? [a]\n: 1", "m.yaml:1:3: a key must be plain text"),
        (b"!!str a: 1", "m.yaml:1:1: 'tag:yaml.org,2002:str': tags are not read"),
        (b"[" * 1000, "m.yaml:1:18: nests deeper than 16 levels: flatten it"),
        (b"a: 1e999", "m.yaml:1:4: 1e999 is too large for a number"),
        (b"a: .NaN", "m.yaml:1:4: .NaN is not a finite number"),
        (b"a: OFF", "m.yaml:1:4: OFF is a truth value in YAML 1.1 and text in 1.2: write false, or 'OFF' in quotes"),
        (b"a: 0b11", "m.yaml:1:4: 0b11 is a number in YAML 1.1 and text in 1.2"),
        (b" " * reader.SIZE_LIMIT + b"a", "m.yaml:1:1: 8388609 bytes of YAML"),
    ],
)
def test_refuses(data: bytes, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        read_yaml(data, "m.yaml")
    assert str(caught.value).startswith(message)


def test_bombs_cost_nothing() -> None:
    start = time.process_time()
    laughs = b"a: &a [x,x]\n" + b"".join(b"%c: &%c [*%c,*%c]\n" % (c, c, c - 1, c - 1) for c in range(98, 122))
    for bomb in (laughs, b"[" * reader.SIZE_LIMIT, b"{a: " * 200_000, b"- " * 500_000):
        with pytest.raises(ManifestError):
            read_yaml(bomb, "m.yaml")
    assert time.process_time() - start < 5, "the first would be 2**25 items, were it expanded"


HEAD = b"version: 1\nname: acme\ntargets: sm_90a\nkernels:\n  - kernel: norm\n"
yaml_ish = st.text(st.sampled_from("ab01:-[]{},&*!|>'\"%@#? \n\t~.e_x\ud7ff\u00e4\\"), max_size=60).map(str.encode)


def outcome(data: bytes) -> Any:
    """The manifest, or the error; anything else is a fault of the reader."""
    try:
        return parse_manifest(data, Path("m.yaml"))
    except ManifestError as error:
        assert error.location.line >= 1 and error.location.column >= 1
        assert str(error).isprintable() or "\n" not in str(error)
        return error


@settings(max_examples=300)
@given(st.binary(max_size=80) | yaml_ish | yaml_ish.map(HEAD.__add__))
@example(b'"\\U00110000"')
@example(b"%YAML 9.9\n---\na")
@example(HEAD + b"    config: {a: [[[[1]]]], b: null}")
@example(HEAD + b"    env: {A: '${'}")
@example(HEAD + b'    path: "' + b"x" * 5000 + b'"')
@example(b"version: 1\nname: a\npath: " + b"x" * 400 + b"\nkernels: [{kernel: a, targets: sm_90a}]")
def test_any_bytes_give_a_manifest_or_an_error(data: bytes) -> None:
    assert isinstance(outcome(data), (Manifest, ManifestError))


@settings(max_examples=200)
@given(yaml_ish | yaml_ish.map(HEAD.__add__))
def test_both_parsers_of_pyyaml_agree(data: bytes) -> None:
    fast = outcome(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_LOADER", yaml.SafeLoader)
        slow = outcome(data)
    if isinstance(fast, Manifest) and isinstance(slow, Manifest):
        assert fast == slow


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("abc", max_size=3), lambda s: st.lists(s, max_size=3)
    )
)
def test_json_reads_as_itself(value: Any) -> None:
    import json

    if isinstance(value, int) and abs(value) > 10**60:
        return
    assert read_yaml(json.dumps({"k": value}).encode(), "m.yaml").plain() == {"k": value}
