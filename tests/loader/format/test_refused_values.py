"""Values that a cache or a caller may not hold, and how the others are written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from precast.loader.errors import ConfigError, FormatError, TargetError
from precast.loader.format import fields
from precast.loader.format.artifact import Artifact, Resources
from precast.loader.format.config import Key, complete, dtype_name, flow_value, to_value
from precast.loader.format.index import OpIndex, key_to_json, parse_key
from precast.loader.format.rows import split
from precast.loader.format.signature import Argument
from precast.loader.format.target import Target, TargetPattern

NUMBER = Key(name="n", type="int")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (torch.bfloat16, "bfloat16"),
        (np.float16, "float16"),
        (np.dtype("int8"), "int8"),
        ("fp8_e4m3", "float8_e4m3fn"),
    ],
)
def test_dtypes_of_libraries(value: object, name: str) -> None:
    assert dtype_name(value) == name


def test_a_dtype_by_the_text_of_an_object() -> None:
    class Odd:
        def __str__(self) -> str:
            return "lib.Half"

    assert dtype_name(Odd()) == "float16"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("x" * 1025, "1025 characters"),
        (float("inf"), "use a finite number"),
        (2**63, "beyond 64 bits"),
        ([[[[[[1]]]]]], "nest deeper"),
    ],
)
def test_values_beyond_the_limits(value: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        to_value(value)


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        ("list[int]", 128, "expected a list, not 128"),
        ("int", True, "expected int, not True"),
        ("mapping", 1, "is not a type of config value"),
    ],
)
def test_values_of_another_type(kind: str, value: object, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Key(name="n", type=kind).normal(value)


def test_choices_and_optional_values() -> None:
    key = Key(name="mode", type="str?", choices=("fast", "exact"))
    assert key.normal("fast") == "fast"
    with pytest.raises(ConfigError, match=r"mode: 'fats' is not allowed.*fast"):
        key.normal("fats")
    assert Key(name="mode", type="str?").normal(None) is None
    assert Key(name="mode", type="str?").normal("x") == "x"
    assert parse_key(key_to_json(key)) == key


def test_a_key_without_a_default_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"op 'norm' needs the config key 'n' \(int\): add it"):
        complete([NUMBER], {}, op="norm")


def test_a_value_that_has_no_json_is_shown_as_text() -> None:
    assert flow_value({1, 2} - {2}) == "{1}"


@pytest.mark.parametrize("most", [0, 2])
def test_lists_and_tables_have_limits(most: int) -> None:
    data: dict[str, Any] = {"items": [1] * (most + 1), "table": {str(n): n for n in range(most + 1)}}
    with pytest.raises(FormatError, match=f"{most + 1} items, more than the {most}.*'items'"):
        fields.items(data, "items", int, most=most)
    with pytest.raises(FormatError, match=f"{most + 1} entries, more than the {most}.*'table'"):
        fields.table(data, "table", int, most=most)


def test_an_error_of_an_item_says_which() -> None:
    with pytest.raises(FormatError, match=r"sm_9 .*\[1\]|'targets\[1\]'"):
        fields.items({"targets": ["sm_90", "sm_9"]}, "targets", Target.parse, most=2)


def test_json_beyond_the_limit_is_not_parsed() -> None:
    with pytest.raises(FormatError, match="10 bytes of JSON, more than the 9"):
        fields.read_json(b"[1, 2, 3] ", limit=9)


def test_a_plus_goes_with_plain_targets() -> None:
    with pytest.raises(TargetError, match=r"'sm_90a\+'.*write 'sm_90\+'"):
        TargetPattern.parse("sm_90a+")


def test_what_a_kernel_uses_is_read_as_it_is_written() -> None:
    used = Resources(kernel="k", registers=255, shared=1, stack=2, local=3)
    assert Resources.parse(used.to_json()) == used


def test_arguments_are_read_as_they_are_written() -> None:
    scalar = Argument(name="n", kind="scalar", dtype="int32", divisibility=8)
    tensor = Argument(name="x", kind="tensor", dtype="float32", shape=("n",), strides=(1,), alignment=16, device="cuda")
    constant = Argument(name="mode", kind="const", value="fast")
    for one in (scalar, tensor, constant, Argument(name="t", kind="tuple", members=(scalar, constant), written=True)):
        assert Argument.parse(one.to_json()) == one
    assert [str(one) for one in (scalar, tensor, constant)] == ["n: int32", "x: float32[n]", "mode: 'fast'"]
    with pytest.raises(FormatError, match="expected a plain value in 'value'"):
        Argument.parse({**constant.to_json(), "value": []})


@pytest.fixture
def row(path: Path) -> dict[str, Any]:
    """An artifact as a cache has it."""
    rows: list[dict[str, Any]] = json.loads((path / "ops" / "scale.json").read_text())["artifacts"]
    return rows[0]


def test_a_config_key_must_be_a_name(row: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"not a config key in 'config\.a-b'"):
        Artifact.parse({**row, "config": {"a-b": 1}})


def test_a_signature_that_nests_too_deep(row: dict[str, Any]) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(FormatError, match="too deep"):
        Artifact.parse({**row, "signature": deep})
    while deep:  # taken apart by hand: so deep a list cannot be freed in one step by every Python
        deep = deep.pop()


def test_more_signatures_than_are_remembered(row: dict[str, Any]) -> None:
    """Each is parsed all the same."""
    for n in range(1100):
        arguments = [{"name": f"x{n}", "kind": "scalar", "dtype": "int32"}]
        found = Artifact.parse({**row, "signature": {"arguments": arguments, "symbols": {}}})
        assert found.signature.arguments[0].name == f"x{n}"


def test_rows_are_sliced_like_a_list(path: Path) -> None:
    index = OpIndex.decode((path / "ops" / "scale.json").read_bytes(), op="scale")
    assert index.rows[1:3] == [index.rows[1], index.rows[2]]


def test_two_configs_in_one_row_are_not_two_rows() -> None:
    rows = [{"config": {"a": 1}, "key": "0" * 64}]
    text = json.dumps({"artifacts": rows, "doc": ""}, sort_keys=True, indent=1)
    assert split(text) is not None
    assert split(text.replace('"a": 1', '"a": 1}, {"b": 2')) is None


def test_a_row_without_a_config_is_found_by_every_lookup(row: dict[str, Any]) -> None:
    index = OpIndex(op="scale", keys=(), rows=(row, {**row, "config": None}))
    assert index.positions(lambda config: config["dtype"], row["config"]["dtype"]) == [0, 1]
    assert index.positions(lambda config: config["dtype"], "other") == [1]
