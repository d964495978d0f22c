"""Host programs that are not valid, or use more than the signature has.

A program decides what is launched, and which bytes the GPU takes for addresses. Each number of it is bounded before
it is used; a leaf stands for what the signature has; what native code runs is checked once more where it is opened.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.contract.format.target import Capability
from precast.loader.launch import native_program
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.machine.machine import Machine, Machines
from tests.helpers.attacks import Refused, forge_op
from tests.helpers.caches import HOST, Native
from tests.helpers.gpu.programs import PROGRAM, SIGNATURE
from tests.helpers.loader_fixtures import Use

CONFIG = {"dtype": "bf16"}
HERE = Machine(arch=HOST.arch, glibc=(2, 36), tvm_ffi="0.1.15", capability=Capability(9, 0))
Row = dict[str, Any]


def deep(levels: int) -> Any:
    return ["add", 1, deep(levels - 1)] if levels else "count"


def cubins(root: Path, change: Callable[[Row], None]) -> None:
    """Make every artifact of ``scale`` a cubin with a program, and change it."""

    def each(op: Any) -> None:
        for row in op["artifacts"]:
            row |= {"kind": "cubin", "host": None, "symbol": "first"}
            row |= {"signature": SIGNATURE.to_json(), "program": PROGRAM.to_json()}
            change(row)

    forge_op(root, "scale", each)


def at(*place: Any, value: Any) -> Callable[[Row], None]:
    """Put a value at a place of the program."""

    def change(row: Row) -> None:
        inner = row["program"]
        for step in place[:-1]:
            inner = inner[step]
        inner[place[-1]] = value

    return change


STEP, PARAMETER = ("steps", 0), ("steps", 0, "parameters", 0)
UNDEFINED = "has a symbol that the signature does not define"
A_NUMBER = "expected a number, a leaf such as 'x.shape[0]', or a function"
DAMAGES: list[tuple[Callable[[Row], None], str]] = [
    (at(*STEP, "shared", value="y.shape[1]"), "is not in "),
    (at(*STEP, "shared", value="stream"), "is not in "),
    (at(*STEP, "when", value="x.data"), "must not decide a launch"),
    (at(*STEP, "grid", value=[1, ["add", 1, "factor.bits"], 1]), "must not decide a launch"),
    (at(*STEP, "shared", value=deep(13)), A_NUMBER),
    (at(*STEP, "shared", value=2**63), A_NUMBER),
    (at(*STEP, "shared", value=1.0), A_NUMBER),
    (at(*STEP, "shared", value=True), A_NUMBER),
    (at(*STEP, "shared", value=["system", 1, 2]), A_NUMBER),
    (at(*STEP, "shared", value=["add", 1]), A_NUMBER),
    (at(*STEP, "shared", value=[["add"], 1, 2]), A_NUMBER),
    (at(*STEP, "shared", value="x.shape[10]"), A_NUMBER),
    (at(*STEP, "shared", value="x.shape[0]\n"), A_NUMBER),
    (at(*STEP, "shared", value="x" * 65), A_NUMBER),
    (at(*STEP, "grid", value=[1, 1]), "expected three expressions"),
    (at(*STEP, "block", value=[1, 1, 1, 1]), "4 items, more than the 3"),
    (at(*STEP, "overlap", value=1), "expected bool"),
    (at(*STEP, "kernel", value="first\nsecond"), "is not a symbol name"),
    (at(*STEP, "more", value=1), "unknown key"),
    (at("steps", value=[PROGRAM.steps[0].to_json()] * 9), "9 items, more than the 8"),
    (at("steps", value={}), "expected a list"),
    (at("limit", value=-1), "is not between 0 and"),
    (at("limit", value=2**62 + 1), "is not between 0 and"),
    (at(*STEP, "parameters", value=[{"size": 1, "words": []}] * 65), "65 items, more than the 64"),
    (at(*STEP, "parameters", value=[{"size": 65, "words": []}] * 64), "more than 4096 bytes"),
    (at(*PARAMETER, "size", value=4097), "is not between 0 and 4096"),
    (at(*PARAMETER, "words", value=[[0, 8, 1]] * 1025), "1025 items, more than the 1024"),
    (at(*PARAMETER, "words", value=[[13, 8, 1]]), "the word ends after its parameter"),
    (at(*PARAMETER, "words", value=[[-1, 8, 1]]), "expected an offset"),
    (at(*PARAMETER, "words", value=[[2**63 - 1, 8, 1]]), "expected an offset"),
    (at(*PARAMETER, "words", value=[[0, 3, 1]]), "expected an offset"),
    (at(*PARAMETER, "words", value=[[0, 0, 1]]), "expected an offset"),
    (at(*PARAMETER, "words", value=[[False, 8, 1]]), "expected an offset"),
    (at(*PARAMETER, "words", value=[[0, 8, "z.data"]]), "is not in "),
    (lambda row: row.update(kind="object", host=HOST.to_json()), "only a cubin has a host program"),
    (lambda row: row.update(program=None), "expected an object"),
    (lambda row: row.pop("program"), "a cubin without a host program"),
    (lambda row: row["signature"].update(symbols={}), UNDEFINED),
    (
        lambda row: row["signature"]["arguments"][2].update(strides=["nobody"]),
        UNDEFINED,
    ),
    (lambda row: row["signature"]["arguments"][0].update(strides=["s"]), "has another number of strides than sizes"),
]


@pytest.mark.parametrize("number", range(len(DAMAGES)))
def test_a_program_that_is_none(path: Path, refused: Refused, number: int) -> None:
    change, words = DAMAGES[number]
    cubins(path, change)
    refused(path, "no variant fits", words)


Opens = Callable[[Path], str]


@pytest.fixture
def opens(native: Native, use: Use, monkeypatch: pytest.MonkeyPatch) -> Opens:
    """Open ``scale`` for a machine whose driver is a stand-in: the key of what is given."""
    monkeypatch.setattr(native_program, "LIBRARY", str(native.launches()))

    def ask(root: Path) -> str:
        use(root, machines=Machines(HERE), opener=KernelOpener(lambda device: HERE))
        return loader.get("scale", CONFIG, target="sm_90a").artifact.key

    return ask


def argument(place: int, **fields: Any) -> Callable[[Row], None]:
    return lambda row: row["signature"]["arguments"][place].update(fields)


UNREADABLE: list[Callable[[Row], None]] = [
    argument(0, dtype="float" + "9" * 30),
    argument(0, dtype="float1000"),
    argument(0, dtype="float32x4096"),
    argument(0, dtype="nonsense"),
    argument(5, dtype="float16"),
    argument(7, kind="tuple", members=[]),
    argument(0, shape=["n"] * 11, strides=None),
    lambda row: row["signature"]["arguments"].extend([{"name": f"a{i}", "kind": "none"} for i in range(60)]),
]


@pytest.mark.parametrize("number", range(len(UNREADABLE)))
def test_a_signature_that_native_code_does_not_read(path: Path, opens: Opens, number: int) -> None:
    def change(row: Row) -> None:
        UNREADABLE[number](row)
        if row["signature"]["arguments"][0].get("strides", 0) is None:
            del row["signature"]["arguments"][0]["strides"]

    cubins(path, change)
    with pytest.raises(loader.LoadError):
        opens(path)


def test_names_that_are_no_text(path: Path, opens: Opens) -> None:
    """They are in the errors of calls alone."""

    def change(row: Row) -> None:
        row["signature"]["arguments"][1]["name"] = "\ud800 \0 \x1b[2J"
        row["signature"]["arguments"][0]["device"] = "\ud800"

    cubins(path, change)
    assert len(opens(path)) == 64


def test_an_undamaged_one(path: Path, opens: Opens) -> None:
    cubins(path, lambda row: None)
    assert len(opens(path)) == 64


@pytest.mark.slow
def test_every_value_by_another(path: Path, opens: Opens) -> None:
    """Each value of a program is replaced by one of another type: there is an error, or another program."""
    program, count = HostProgram(steps=PROGRAM.steps[:1], limit=1).to_json(), 0
    others: tuple[Any, ...] = (None, True, -1, "\ud800", [], 2**70)
    for place in places(program):
        for value in others:
            changed = copy.deepcopy(program)
            row: Row = {"program": changed}
            at(*place, value=value)(row)
            cubins(path, lambda one, row=row: one.update(row))  # type: ignore[misc]
            try:
                assert len(opens(path)) == 64
            except loader.PrecastError:
                count += 1
    assert count > 100


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*here, key)
        yield from places(item, (*here, key))
