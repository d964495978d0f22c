"""What an index may hold, value by value: each limit, each kind of value, and that all of it is read back."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from precast.loader.contract.format import fields
from precast.loader.contract.format.artifact import Artifact, Blob, Resources
from precast.loader.contract.format.config import Key, complete, dtype_name, suggest, to_value, value_text
from precast.loader.contract.format.description import describe, describe_argument, describe_symbols
from precast.loader.contract.format.index import Index, OpIndex, Runtime
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.rows import Rows, split
from precast.loader.contract.format.signature import Argument, Signature, Symbol
from precast.loader.contract.format.target import TargetPattern
from precast.loader.errors import CacheError, ConfigError, FormatError, TargetError
from tests.helpers.caches import HOST, SCALE_KEYS, reader_of
from tests.helpers.resolutions import BLOB, scale

MEMBERS = (Argument(name="a", kind="scalar", dtype="int32", divisibility=4), Argument(name="b", kind="none"))
EVERY_KIND = Signature(
    arguments=(
        Argument(name="x", kind="tensor", dtype="float32", shape=("n", 4), strides=("s", 1), written=True),
        Argument(name="pair", kind="tuple", members=MEMBERS),
        Argument(name="size", kind="shape", shape=(2, "n")),
        Argument(name="nothing", kind="none"),
        Argument(name="flag", kind="const", value=True),
        Argument(name="p", kind="pointer"),
    )
)


def test_every_kind_of_argument_is_read_back_and_shown() -> None:
    assert Signature.parse(json.loads(json.dumps(EVERY_KIND.to_json()))) == EVERY_KIND
    assert str(EVERY_KIND) == (
        "(x: float32[n, 4], pair: (a: int32, b: None), size: (2, n), nothing: None, flag: True, p: pointer)"
    )


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        (MEMBERS[0], "a: int32, a multiple of 4"),
        (Argument(name="t", kind="tuple", members=MEMBERS), "t: (a: int32, a multiple of 4, b: None)"),
        (Argument(name="p", kind="pointer"), "p: pointer"),
        (Argument(name="p", kind="pointer", dtype="int8", alignment=16), "p: pointer to int8, aligned to 16 bytes"),
        (EVERY_KIND.arguments[0], "x: float32[n, 4], strides (s, 1), written"),
        (replace(EVERY_KIND.arguments[0], strides=(4, 1), written=False, device="cpu"), "x: float32[n, 4], on cpu"),
        (
            replace(EVERY_KIND.arguments[0], shape=(4, "n")),
            "x: float32[4, n], strides (s, 1), written",
        ),
        (Argument(name="y", kind="tensor", dtype="int8", shape=(2, 3), strides=(3, 1)), "y: int8[2, 3]"),
    ],
)
def test_an_argument_is_described_by_what_a_caller_must_keep_to(argument: Argument, text: str) -> None:
    assert describe_argument(argument) == text


def test_a_constant_that_is_no_plain_value_is_refused() -> None:
    with pytest.raises(FormatError, match="expected a plain value in 'value'"):
        Argument.parse({"name": "c", "kind": "const", "value": [1]})


@pytest.mark.parametrize("value", [True, 1.0, "1", None])
def test_a_number_of_an_index_is_a_whole_number(value: object) -> None:
    with pytest.raises(FormatError, match=r"expected int, got .* in 'size'"):
        Blob.parse({**BLOB.to_json(), "size": value})


def test_resources_and_runtime_libraries_are_read_back() -> None:
    used = Resources(kernel="k", registers=32, shared=1024, stack=0, local=8)
    one = replace(scale(), resources=(used,))
    assert Artifact.parse(json.loads(json.dumps(one.to_json()))) == one
    runtime = Runtime(soname="libprecast-rt-0000000000000000.so", host=HOST, blob=BLOB)
    index = Index(name="demo", toolchain={}, runtimes=(runtime,), ops={})
    assert Index.decode(index.encode()) == index


def test_more_signatures_than_are_remembered() -> None:
    data = scale().to_json()
    for n in range(1100):
        argument = {"name": f"x{n}", "kind": "scalar", "dtype": "int32"}
        found = Artifact.parse({**data, "signature": {"arguments": [argument], "symbols": {}}})
        assert found.signature.arguments[0].name == f"x{n}"


def test_a_signature_that_equals_a_remembered_one_in_value_alone_is_checked() -> None:
    data = scale().to_json()
    argument = {"alignment": 1, "dtype": "float32", "kind": "tensor", "name": "x", "shape": ["n"]}
    symbols = {"n": {"divisibility": 1, "dtype": "int32"}}
    Artifact.parse({**data, "signature": {"arguments": [argument], "symbols": symbols}})
    for wrong in (True, 1.0):
        with pytest.raises(FormatError, match="alignment"):
            Artifact.parse({**data, "signature": {"arguments": [{**argument, "alignment": wrong}], "symbols": symbols}})


def test_a_signature_without_end_is_refused() -> None:
    loop: list[Any] = []
    for _ in range(100_000):
        loop = [loop]
    with pytest.raises(FormatError, match="nests too deep"):
        Artifact.parse({**scale().to_json(), "signature": loop})


def test_a_config_key_that_is_no_name_is_refused() -> None:
    with pytest.raises(FormatError, match=r"not a config key in 'config\.2nd'"):
        Artifact.parse({**scale().to_json(), "config": {"2nd": 1}})


def test_each_list_and_table_and_text_has_a_limit() -> None:
    with pytest.raises(FormatError, match="3 items, more than the 2"):
        fields.items({"a": [1, 2, 3]}, "a", str, most=2)
    with pytest.raises(FormatError, match="2 entries, more than the 1"):
        fields.table({"a": {"b": 1, "c": 2}}, "a", str, most=1)
    with pytest.raises(FormatError, match="4 bytes of JSON, more than the 3"):
        fields.read_json(b"1234", limit=3)


def test_an_error_of_an_item_says_which_one() -> None:
    with pytest.raises(FormatError, match=r"lists nest deeper than 12 levels.* in 'a\[1\]'"):
        fields.items({"a": [1, [[[[[[[[[[[[[[]]]]]]]]]]]]]]]}, "a", to_value, most=2)


def test_the_repeated_key_is_named() -> None:
    with pytest.raises(FormatError, match="twice in 'b'"):
        fields.read_json(b'{"a": 1, "b": 2, "c": 3, "b": 4}', limit=100)


def test_a_row_whose_config_is_not_one_object_is_refused_where_it_is_used() -> None:
    data = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=(scale(), scale(threads=1))).encode()
    wrong = split(data.replace(b'"config": {', b'"config": {"a": 1}, {', 1), "scale.json")
    assert wrong is not None and wrong[1][1]["config"]
    uses: list[Callable[[Rows], object]] = [lambda rows: rows[0], lambda rows: rows.config(0)]
    uses.append(lambda rows: rows.configs)
    for use in uses:
        with pytest.raises(CacheError, match=r"^scale\.json: .*Rebuild or reinstall the cache"):
            use(wrong[1])


def test_configs_that_cannot_be_grouped_are_looked_at_each_time() -> None:
    """A config that is missing, or holds an object, must not hide the other rows; parsing refuses it later."""
    index = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=(scale(),))
    odd = reader_of(index, artifacts=[{"key": "0"}, scale().to_json()])
    assert odd.positions(lambda config: config["threads"], 128) == [0, 1]


def test_choices_of_a_key_are_read_back() -> None:
    key = Key(name="mode", type="str", choices=("a", "b"))
    op = OpIndex.of(op="scale", keys=(key,), doc="", artifacts=())
    assert OpReader.decode(op.encode(), op="scale").keys == (key,)
    with pytest.raises(ConfigError, match="'c' is not allowed"):
        key.normal("c")


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int?", None, None),
        ("int?", 3, 3),
        ("float", 2, 2.0),
        ("list[int]", [1, 2], (1, 2)),
        ("any", [1], (1,)),
    ],
)
def test_values_have_one_form(kind: str, value: object, expected: object) -> None:
    found = Key(name="k", type=kind).normal(value)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("list[int]", 5, r"expected a list, got 5: write \[..\]"),
        ("complex", 5, "'complex' is not a type of config value"),
        ("any", 2**63, "beyond 64 bits"),
        ("any", "x" * 1025, "a text of 1025 characters"),
        ("any", object(), "object is not a config value"),
        ("dtype", 7, "7 is not a dtype"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Key(name="k", type=kind).normal(value)


def test_dtypes_of_other_libraries() -> None:
    import numpy

    torch = pytest.importorskip("torch")

    named: Any = type("Named", (), {"name": "bfloat16"})()
    assert [dtype_name(d) for d in (torch.float16, numpy.float32, numpy.dtype("int8"), named)] == [
        "float16", "float32", "int8", "bfloat16",
    ]  # fmt: skip


def test_a_config_is_completed_with_the_defaults() -> None:
    assert complete(SCALE_KEYS, {"dtype": "bf16"}, op="scale") == {"dtype": "bfloat16", "layout": "row", "threads": 128}
    with pytest.raises(ConfigError, match=r"needs the config key 'dtype' \(dtype\): add it"):
        complete(SCALE_KEYS, {}, op="scale")


def test_a_suggestion_among_thousands_of_words_is_the_nearest_and_a_list_of_them_is_short() -> None:
    words = [f"paged_attention_{n:05}" for n in range(5000)]
    assert suggest("paged_attention_o4999", words) == "; did you mean 'paged_attention_04999'?"
    assert suggest("rmsnorm", words).endswith(", paged_attention_00049 and 4950 more")


def test_a_config_has_no_endless_list() -> None:
    assert len(to_value([0] * 4096)) == 4096  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a list of 4097 items is not a config value: 4096 at most"):
        to_value([0] * 4097)


def test_a_suggestion_without_a_near_word_lists_all() -> None:
    assert suggest("zzz", ["b", "a"]) == "; it takes one of: a, b" and suggest("zzz", []) == ""


def test_a_value_that_json_does_not_have_is_shown_as_python_shows_it() -> None:
    assert value_text({1, 2}) == "{1, 2}"


def test_newer_than_a_target_with_features_is_refused() -> None:
    with pytest.raises(TargetError, match=r"write 'sm_90\+'"):
        TargetPattern.parse("sm_90a+")


def test_arguments_that_can_only_be_none_are_known_with_what_is_passed_for_them() -> None:
    none = Argument(name="mask", kind="none")
    pair = Argument(name="pair", kind="tuple", members=(none, Argument(name="more", kind="tuple", members=(none,))))
    assert (none.always_none, none.none_value) == (True, None)
    assert (pair.always_none, pair.none_value) == (True, (None, (None,)))
    assert not Argument(name="t", kind="tuple", members=(none, MEMBERS[0])).always_none


def test_arguments_nest_to_a_bounded_depth() -> None:
    data: dict[str, Any] = {"name": "x", "kind": "scalar"}
    for _ in range(5):
        data = {"name": "x", "kind": "tuple", "members": [data]}
    with pytest.raises(FormatError, match="arguments nest deeper than 4 levels"):
        Argument.parse(data)


@pytest.mark.parametrize("dim", [1.5, 2**63, True, "n" * 65, None])
def test_a_size_of_a_shape_is_a_64_bit_number_or_a_name(dim: Any) -> None:
    with pytest.raises(FormatError, match="expected a 64-bit number or the name of a symbol"):
        Argument.parse({"name": "x", "kind": "tensor", "shape": [dim]})


def test_an_arguments_device_is_read_back() -> None:
    argument = Argument(name="x", kind="tensor", dtype="int8", shape=(4,), device="cpu")
    assert Argument.parse(argument.to_json()) == argument


def test_a_text_longer_than_any_of_an_authors_is_no_config_value() -> None:
    assert to_value("a" * 1024) == "a" * 1024
    with pytest.raises(ConfigError, match="1025 characters"):
        to_value("a" * 1025)


def test_lists_nest_to_a_bounded_depth() -> None:
    value: Any = 1
    for _ in range(13):
        value = [value]
    assert to_value(value[0])
    with pytest.raises(ConfigError, match="nest deeper than 12 levels"):
        to_value(value)


def test_json_that_nests_without_end_is_refused() -> None:
    with pytest.raises(FormatError, match="JSON nests too deep"):
        fields.parse_json("[" * 100_000)


def test_a_word_that_is_not_of_a_list_is_refused_with_the_list() -> None:
    with pytest.raises(FormatError, match="'c' is not one of a, b"):
        fields.one_of({"kind": "c"}, "kind", ("a", "b"))


def test_an_ops_file_is_that_ops() -> None:
    data = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=(scale(),)).encode()
    with pytest.raises(FormatError, match="this is not the file of 'other'"):
        OpReader.decode(data, op="other")


def test_help_of_a_kernel_shows_its_docstring_its_arguments_and_its_sizes() -> None:
    wide = {"n": Symbol(dtype="int64", divisibility=8)}
    x = Argument(name="x", kind="tensor", dtype="float32", shape=("n",))
    chosen = replace(scale(), signature=Signature(arguments=(x,), symbols=wide))
    text = describe("scale", chosen, "Scales a vector.")
    compiled = "scale {dtype: bfloat16, layout: row, threads: 128}, compiled for sm_90a."
    head = f"Scales a vector.\n\n{compiled}\n\nArguments, in call order:\n    x: float32[n]\n\nwhere\n    "
    assert text == head + "\n    ".join(describe_symbols(chosen.signature))
    assert "n" in text[len(head) :] and "8" in text[len(head) :]
    assert describe("scale", scale(), "").startswith(compiled)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_is_not_finite_is_nowhere_allowed(number: str) -> None:
    with pytest.raises(FormatError, match=f"{number} is not a number that a file may hold"):
        fields.parse_json(f'{{"x": {number}}}')
    with pytest.raises(ConfigError, match="use a finite number"):
        to_value(float(number))


def test_two_arguments_cannot_be_renamed_to_one_name() -> None:
    with pytest.raises(ConfigError, match="two arguments would be called 'p'"):
        EVERY_KIND.renamed({"x": "p"})
