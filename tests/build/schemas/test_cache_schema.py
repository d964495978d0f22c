"""The published schemas against the readers: on real files, and on files with one thing wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from precast.build.errors import ManifestError
from precast.build.plan.manifest import parse_manifest
from precast.build.plan.yaml.reader import read_yaml
from precast.build.schemas.documents import NAMES, schema_of
from precast.loader.contract.format.artifact import Artifact, Blob, Host, Resources
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.config import Config, Key
from precast.loader.contract.format.index import Index, OpEntry, OpIndex, Runtime
from precast.loader.contract.format.op_reader import OpReader
from precast.loader.contract.format.program.host_program import HostProgram, Parameter, Word
from precast.loader.contract.format.program.host_program import Step as HostStep
from precast.loader.contract.format.signature import Argument, Signature, Symbol
from precast.loader.contract.format.target import Capability, Target
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.errors import FormatError

HERE = Path(__file__).parents[1]
SHA = "a" * 64
BLOB = Blob(sha256=SHA, size=10, stored=5, encoding="zstd")
HOST = Host(arch="x86_64", glibc="2.28")

# What a schema cannot say, or what is not a matter of the manifest's shape.
BEYOND = {
    "alias", "grouped_number", "infinite_number", "key_twice", "octal_number", "open_bracket", "python_tag",
    "tab_indent", "two_documents", "yes_is_no_truth",  # not YAML that is read, so there is no value to validate
    "no_such_folder", "path_variable_not_set", "key_in_config_and_tuned", "no_targets",
    "call_tensor_of_unknown_dtype", "call_name_without_value", "call_name_within_text",
    "call_key_that_no_argument_names", "call_strides_of_another_rank", "script_that_is_not_there",
    "problem_size_twice", "too_many_problems", "inputs_variable_of_precast",
}  # fmt: skip


def takes(name: str, value: Any) -> bool:
    return bool(jsonschema.Draft202012Validator(schema_of(name)).is_valid(value))


@pytest.mark.parametrize("name", NAMES)
def test_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema_of(name))


MINIMAL = {"version": 1, "name": "acme", "targets": "sm_90a", "kernels": [{"kernel": "rmsnorm"}]}
FULL = {
    "version": 1,
    "name": "acme-norms",
    "targets": ["sm_90a", "sm_100f"],
    "path": ["."],
    "kernels": [
        {
            "compile": "acme.norms:Kernels.compile",
            "op": "acme.norm",
            "config": {"dtype": ["bf16"], "tile": [[1, 2]], "eps": 1e-6, "on": True, "none": None},
            "tuned": {"threads": [128, 256]},
            "include": [{"dtype": "fp16"}],
            "exclude": [{"dtype": ["bf16"], "threads": 256}],
            "targets": "sm_120a",
            "emit": ["object", "cubin"],
            "env": {"SMS": "n=${target.sm_count}$", "N": 3},
            "parts": ["fwd"],
            "skip_unsupported": True,
        }
    ],
}


CALL = {
    "version": 1,
    "name": "acme",
    "targets": ["sm_90a"],
    "kernels": [
        {
            "call": "acme.front:norm",
            "with": {
                "x": {"dtype": "dtype", "shape": ["rows", 8], "strides": [8, 1], "requires_grad": True},
                "lengths": {"dtype": "int32", "values": [0, "rows", [1.5, True]]},
                "eps": "${eps}",
                "both": [None, False, {"dtype": "bf16", "shape": []}],
            },
            "config": {"dtype": ["bf16", "half"], "rows": [1, 2], "eps": 1e-6},
            "include": [{"dtype": "float32"}],
            "exclude": [{"rows": 2}],
            "backward": True,
            "libraries": ["acme"],
            "env": {"A": 1},
            "skip_unsupported": True,
        },
        {"script": "schemas/test_cache_schema.py", "arguments": ["--fast", 1, 1.5], "libraries": "acme"},
    ],
}


def both(value: Any) -> bool:
    """What reader and schema say of a manifest; they must agree."""
    try:
        parse_manifest(json.dumps(value).encode(), HERE / "m.yaml")
        read = True
    except ManifestError:
        read = False
    assert takes("manifest", value) == read, value
    return read


@pytest.mark.parametrize("value", [MINIMAL, FULL, CALL, {**MINIMAL, "targets": ["sm_80"]}])
def test_takes_manifests(value: Any) -> None:
    if value is CALL:
        pytest.importorskip("precast.attach")
    assert both(value)


@pytest.mark.parametrize("path", sorted((HERE / "plan" / "wrong").glob("*.yaml")), ids=lambda p: p.stem)
def test_refuses_what_the_reader_refuses(path: Path) -> None:
    if path.stem in BEYOND:
        with pytest.raises(ManifestError):
            parse_manifest(path.read_bytes(), path)
        return
    assert not takes("manifest", read_yaml(path.read_bytes(), path.name).plain())


@pytest.mark.parametrize("path", sorted((HERE / "plan" / "refused").glob("*.yaml")), ids=lambda p: p.stem)
def test_takes_what_the_reader_takes(path: Path) -> None:
    assert takes("manifest", read_yaml(path.read_bytes(), path.name).plain())


def changed(value: Any, *path: Any, to: Any) -> Any:
    """A copy with one thing changed."""
    result = copy.deepcopy(value)
    inner = result
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return result


ENTRY = ("kernels", 0)


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("version",), "1"), (("name",), "a--b"), (("name",), "acme\n"), (("targets",), []), (("targets",), "sm_95"),
        (("targets",), [["sm_90a"]]), (("path",), [3]), (("kernels",), []), (("kernels",), [None]),
        ((*ENTRY, "compile"), "acme"), ((*ENTRY, "compile"), "ä:b"), ((*ENTRY, "kernel"), "rmsnorm"),
        ((*ENTRY, "op"), "a.b.c.d.e"), ((*ENTRY, "config"), []), ((*ENTRY, "config", "a-b"), 1),
        ((*ENTRY, "config", "x"), {"a": 1}), ((*ENTRY, "config", "x"), [[{"a": 1}]]), ((*ENTRY, "include"), [{}]),
        ((*ENTRY, "include"), {"a": 1}), ((*ENTRY, "exclude"), [3]), ((*ENTRY, "emit"), []),
        ((*ENTRY, "emit"), ["cubin", "cubin"]), ((*ENTRY, "env", "X"), True), ((*ENTRY, "env", "X"), None),
        ((*ENTRY, "env", "X"), "${target.nothing}"), ((*ENTRY, "env", "X"), "${HOME}"), ((*ENTRY, "env", "1X"), "a"),
        ((*ENTRY, "parts"), ["A"]), ((*ENTRY, "parts"), "fwd-a"), ((*ENTRY, "skip_unsupported"), 1), ((*ENTRY, "x"), 1),
    ],
)  # fmt: skip
def test_both_refuse(path: tuple[Any, ...], to: Any) -> None:
    assert not both(changed(FULL, *path, to=to))


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("path",), "."), ((*ENTRY, "env", "X"), "a $ b ${ c"), ((*ENTRY, "env", "X"), "$${target.name}"),
        ((*ENTRY, "env", "X"), 1.5), ((*ENTRY, "config"), {}), ((*ENTRY, "include"), []), ((*ENTRY, "config", "x"), []),
        ((*ENTRY, "emit"), "cubin"), ((*ENTRY, "env", "X"), ""), ((*ENTRY, "env", "X"), "two\nlines"),
    ],
)  # fmt: skip
def test_both_take(path: tuple[Any, ...], to: Any) -> None:
    assert both(changed(FULL, *path, to=to))


X = (*ENTRY, "with", "x")


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ((*ENTRY, "call"), "acme"), ((*ENTRY, "call"), "a:b@quack"), ((*ENTRY, "tuned"), {"n": 1}),
        ((*ENTRY, "op"), "acme.norm"), ((*ENTRY, "emit"), "cubin"), ((*ENTRY, "parts"), ["a"]), (ENTRY, {"with": {}}),
        ((*ENTRY, "with"), []), ((*ENTRY, "with", "a-b"), 1), ((*ENTRY, "backward"), 1), ((*ENTRY, "libraries"), []),
        ((*ENTRY, "libraries"), "Quack"), ((*ENTRY, "script"), "schemas/test_cache_schema.py"), (X, {"dtype": "bf16"}),
        (X, {"shape": [1]}), (X, {"dtype": "bf16", "shape": [1], "values": [1]}), ((*X, "shape"), 8),
        ((*X, "shape"), [-1, 8]), ((*X, "shape"), [1.5, 8]), ((*X, "shape"), [True, 8]), ((*X, "shape"), ["4*rows", 8]),
        ((*X, "shape"), [[1], 8]), ((*X, "strides"), "rows"), ((*X, "requires_grad"), 1), ((*X, "device"), "cuda"),
        ((*X, "dtype"), 1), ((*X, "strides"), [None, 1]), ((*ENTRY, "with", "lengths", "values"), None),
        ((*ENTRY, "with", "lengths", "values"), [None]), ((*ENTRY, "with", "lengths", "strides"), [1]),
        (("kernels", 1, "arguments"), [True]), (("kernels", 1, "arguments"), "--fast"),
        (("kernels", 1, "config"), {}), (("kernels", 1, "backward"), True),
    ],
)  # fmt: skip
def test_both_refuse_a_call_or_script(path: tuple[Any, ...], to: Any) -> None:
    assert not both(changed(CALL, *path, to=to))


def an_index() -> Any:
    runtime = Runtime(soname=f"libprecast-rt-{'0' * 16}.so", host=HOST, blob=BLOB)
    entry = OpEntry(sha256=SHA, size=3, artifacts=1)
    made = Index(name="acme", toolchain={"a": "1"}, runtimes=(runtime,), ops={"acme.norm": entry}, dictionary=BLOB)
    return json.loads(made.encode())


def an_op() -> Any:
    tensor = Argument(name="x", kind="tensor", dtype="float32", shape=("n", 4), strides=(4, 1), alignment=16)
    nested = Argument(name="t", kind="tuple", members=(Argument(name="c", kind="const", value=1.5),))
    signature = Signature(arguments=(tensor, nested), symbols={"n": Symbol(dtype="int32", divisibility=8)})
    resources = (Resources(kernel="k", registers=32, shared=0, stack=0, local=0),)
    config: Config = {"dtype": "bfloat16", "tile": (64, (1, 2)), "eps": 1e-6, "none": None, "on": True}
    artifact = Artifact(
        key=SHA, config=config, target=Target(9, 0, "a"), kind="object", blob=BLOB, symbol="__tvm_ffi_x",
        signature=signature, host=HOST, resources=resources, provenance={"source": SHA}, evidence=({"verified": True},),
        assumes=Assumptions(needs={"multiprocessor_count": 132}, speed={"name": "NVIDIA H200", "warp_size": 32}),
    )  # fmt: skip
    keys = (
        Key(name="dtype", type="dtype", choices=("bfloat16",)),
        Key(name="tile", type="list[int]?", has_default=True),
    )
    tiling = Tiling(tile={"m": 128}, at_once=132)
    tuning = (
        Measured(
            gpu="NVIDIA H200", capability=Capability(9, 0), problem={"m": 8}, times={SHA: 1.5}, tilings={SHA: tiling}
        ),
    )
    return json.loads(OpIndex.of(op="acme.norm", keys=keys, doc="d", artifacts=(artifact,), tuning=tuning).encode())


def read_op(data: bytes) -> object:
    reader = OpReader.decode(data, op="acme.norm")
    return reader.artifacts, reader.tuning


READERS: dict[str, tuple[Callable[[], Any], Callable[[bytes], object]]] = {
    "index": (an_index, Index.decode),
    "op": (an_op, read_op),
}
ARTIFACT = ("artifacts", 0)
TABLE = ("tuning", 0)
ROW = (*TABLE, "rows", 0)
VARIANT = (*TABLE, "variants", 0)
ARGUMENT = (*ARTIFACT, "signature", "arguments", 0)


@pytest.mark.parametrize("name", READERS)
def test_takes_what_the_writer_writes(name: str) -> None:
    make, read = READERS[name]
    read(json.dumps(make()).encode())
    jsonschema.Draft202012Validator(schema_of(name)).validate(make())


@pytest.mark.parametrize(
    ("name", "path", "to"),
    [
        ("index", ("format",), "precast-op"), ("index", ("version",), 2), ("index", ("version",), 0),
        ("index", ("name",), "A"), ("index", ("runtimes", 0, "soname"), "../x.so"),
        ("index", ("runtimes", 0, "soname"), f"libprecast-rt-{'0' * 16}.so\n"),
        ("index", ("runtimes", 0, "host", "arch"), "sparc"), ("index", ("runtimes", 0, "host", "glibc"), "3.1"),
        ("index", ("dictionary", "encoding"), "gzip"), ("index", ("ops", "Bad"), {}), ("index", ("more",), 1),
        ("index", ("ops", "acme.norm", "sha256"), "A" * 64), ("index", ("ops", "acme.norm", "size"), 2**40),
        ("op", ("op",), "other!"), ("op", ("keys", 0, "name"), "a-b"), ("op", ("keys", 0, "type"), "tensor"),
        ("op", (*ARTIFACT, "key"), "a"), ("op", (*ARTIFACT, "target"), "sm_9"), ("op", (*ARTIFACT, "kind"), "ptx"),
        ("op", (*ARTIFACT, "symbol"), "a b"), ("op", (*ARTIFACT, "rank"), 2**40),
        ("op", (*ARTIFACT, "config", "x"), 2**63), ("op", (*ARTIFACT, "config", "x"), [[[[[[[[[[[[[[1]]]]]]]]]]]]]]),
        ("op", (*ARTIFACT, "config", "x"), "y" * 1025), ("op", (*TABLE, "capability"), "9"),
        ("op", (*TABLE, "axes"), ["a-b"]), ("op", (*TABLE, "more"), 1), ("op", (*VARIANT, "key"), "x"),
        ("op", (*VARIANT, "more"), 1), ("op", (*VARIANT, "tiling", "at_once"), 0),
        ("op", (*VARIANT, "tiling", "tile", "m"), 0), ("op", (*VARIANT, "tiling", "tile", "a-b"), 1),
        ("op", ROW, "-1: 1"), ("op", ROW, "m: 1"), ("op", ROW, "1"), ("op", ROW, "1:1"), ("op", ROW, "1: 1\n"),
        ("op", ROW, "1: 0"), ("op", ROW, "1: nan"), ("op", ROW, "1: "), ("op", ROW, "1: ,"),
        ("op", (*ARGUMENT, "kind"), "pickle"), ("op", (*ARGUMENT, "shape"), ["n" * 65]),
        ("op", (*ARGUMENT, "more"), 1), ("op", (*ARTIFACT, "assumes"), {"needs": {}, "speed": {}}),
        ("op", (*ARTIFACT, "assumes", "more"), {}), ("op", (*ARTIFACT, "assumes", "speed", "a-b"), 1),
    ],
)  # fmt: skip
def test_reader_and_schema_refuse(name: str, path: tuple[Any, ...], to: Any) -> None:
    make, read = READERS[name]
    wrong = changed(make(), *path, to=to)
    with pytest.raises(FormatError):
        read(json.dumps(wrong).encode())
    assert not takes(name, wrong)


def holders(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every key of every object in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for k, v in inner for p in [*([(*path, k)] if isinstance(value, dict) else []), *holders(v, (*path, k))]]


@pytest.mark.parametrize("name", READERS)
def test_reader_and_schema_agree_on_what_may_be_missing(name: str) -> None:
    make, read = READERS[name]
    agreed = 0
    for path in holders(make()):
        less = copy.deepcopy(make())
        inner = less
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
        try:
            read(json.dumps(less).encode())
            fine = True
        except FormatError:
            fine = False
        assert takes(name, less) == fine, path
        agreed += 1
    assert agreed > 15


WORD = ("artifacts", 0, "program", "steps", 0, "parameters", 0, "words", 0)
STEP = ("artifacts", 0, "program", "steps", 0)


def a_cubin() -> Any:
    x = Argument(name="x", kind="tensor", dtype="bfloat16", shape=("n",), strides=(1,), device="cuda")
    step = HostStep(
        kernel="k",
        grid=(("max", ("ceil_div", "x.shape[0]", 8), 1), 1, 1),
        block=(128, 1, 1),
        parameters=(Parameter(size=12, words=(Word(0, 8, "x.data"), Word(8, 4, ("low", "x.span", 32)))),),
    )
    made = Artifact(
        key=SHA, config={}, target=Target.parse("sm_90a"), kind="cubin", blob=BLOB, symbol="k",
        signature=Signature(arguments=(x,), symbols={"n": Symbol(dtype="int32")}),
        program=HostProgram(steps=(step,), limit=5),
    )  # fmt: skip
    return json.loads(OpIndex.of(op="acme.norm", keys=(), doc="", artifacts=(made,)).encode())


@pytest.mark.parametrize(
    ("path", "to"),
    [
        (("artifacts", 0, "kind"), "object"), (("artifacts", 0, "program"), None),
        (("artifacts", 0, "program", "limit"), -1), (("artifacts", 0, "program", "more"), 1),
        ((*STEP, "kernel"), "two words"), ((*STEP, "grid"), [1, 1]), ((*STEP, "overlap"), 0), ((*STEP, "when"), None),
        ((*STEP, "shared"), ["pow", 1, 2]), ((*STEP, "shared"), 2**63), ((*STEP, "shared"), "x.size"),
        ((*STEP, "parameters"), [{"size": 4097, "words": []}]), (WORD, [0, 3, 1]), (WORD, [-1, 4, 1]), (WORD, [0, 4]),
        (WORD, [0, 4, "x.shape[0"]), (("artifacts", 0, "plan"), {}),
    ],
)  # fmt: skip
def test_host_programs(path: tuple[Any, ...], to: Any) -> None:
    assert takes("op", a_cubin()) and read_op(json.dumps(a_cubin()).encode())
    wrong = changed(a_cubin(), *path, to=to)
    with pytest.raises(FormatError):
        read_op(json.dumps(wrong).encode())
    assert not takes("op", wrong)


def test_a_runtime_library_has_a_name_and_a_blob() -> None:
    for name in ("soname", "blob", "host"):
        data = an_index()
        del data["runtimes"][0][name]
        assert not takes("index", data)
        with pytest.raises(FormatError, match="missing"):
            Index.decode(json.dumps(data).encode())


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in inner:
        yield (*path, step)
        yield from places(member, (*path, step))


@pytest.mark.parametrize("to", [None, True, -1, 1.5, [None]], ids=repr)
@pytest.mark.parametrize("name", ["index", "op", "cubin"])
def test_reader_and_schema_agree_on_a_value_of_another_type(name: str, to: Any) -> None:
    make, read = {**READERS, "cubin": (a_cubin, read_op)}[name]
    validator = jsonschema.Draft202012Validator(schema_of("op" if name == "cubin" else name))
    refused = 0
    for path in places(make()):
        wrong = changed(make(), *path, to=to)
        try:
            read(json.dumps(wrong).encode())
            fine = True
        except FormatError:
            fine = False
            refused += 1
        assert validator.is_valid(wrong) == fine, path
    assert refused > 15
