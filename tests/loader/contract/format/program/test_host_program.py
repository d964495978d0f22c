"""Host programs: read back as they were, refused where they are not sound, and evaluated within a device's limits."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.program.host_program import HostProgram, Launch, Parameter, Step, Word
from precast.loader.contract.format.signature import Argument, Signature, Symbol
from precast.loader.errors import FormatError, LaunchError
from tests.helpers.caches import artifact
from tests.helpers.resolutions import BLOB

SIGNATURE = Signature(
    arguments=(
        Argument(name="x", kind="tensor", dtype="float32", shape=("n", 4), strides=("s", 1)),
        Argument(name="count", kind="scalar", dtype="int32"),
        Argument(name="factor", kind="scalar", dtype="float32"),
        Argument(name="bias", kind="none"),
        Argument(name="stream", kind="env_stream"),
    ),
    symbols={"n": Symbol(dtype="int32"), "s": Symbol(dtype="int64")},
)
STEP = Step(
    kernel="one",
    grid=(("ceil_div", "x.shape[0]", 8), ("mul", "count", 2), 1),
    block=(128, 1, 1),
    cluster=(2, 1, 1),
    shared=("mul", 1024, "count"),
    overlap=True,
    when=("at_least", "x.shape[0]", 1),
    parameters=(
        Parameter(size=24, words=(Word(0, 8, "x.data"), Word(8, 4, "x.shape[0]"), Word(16, 8, "x.strides[0]"))),
        Parameter(size=4, words=(Word(0, 4, "factor.bits"),)),
    ),
)
PROGRAM = HostProgram(steps=(STEP, replace(STEP, kernel="two", when=("at_least", "count", 2))), limit=1000)
LEAVES = {"x.shape[0]": 20, "x.strides[0]": 4, "x.data": 1 << 40, "x.span": 80, "count": 3, "factor.bits": 0x3F800000}


def planned() -> Artifact:
    device = artifact(BLOB, {}, symbol="one", kind="cubin", host=None)
    return replace(device, signature=SIGNATURE, program=PROGRAM)


def test_what_a_call_launches() -> None:
    made = PROGRAM.launches(LEAVES)
    assert [kernel for kernel, _, _ in made] == ["one", "two"]
    assert made[0][1] == Launch((3, 6, 1), (128, 1, 1), (2, 1, 1), 3072, True)
    assert made[0][2][0].hex() == "000000000001000014000000000000000400000000000000"
    assert made[0][2][1].hex() == "0000803f"


def test_a_step_is_left_out() -> None:
    assert [kernel for kernel, _, _ in PROGRAM.launches({**LEAVES, "count": 1})] == ["one"]
    assert [kernel for kernel, _, _ in PROGRAM.launches({**LEAVES, "x.shape[0]": 0, "count": 1})] == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": (0, 1, 1)}, "the grid would be"),
        ({"grid": (2**31, 1, 1)}, "the grid would be"),
        ({"block": (1025, 1, 1)}, "the block would be"),
        ({"cluster": (17, 1, 1)}, "the cluster would be"),
        ({"shared": 232449}, "232449 bytes of shared memory"),
        ({"when": ("floor_div", 1, 0)}, "divides by zero"),
    ],
)
def test_a_launch_beyond_the_limits_of_every_device_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LaunchError, match=f"{message}.*give other sizes"):
        HostProgram(steps=(replace(STEP, **change),)).launches(LEAVES)


def test_it_is_read_back() -> None:
    assert HostProgram.parse(json.loads(json.dumps(PROGRAM.to_json()))) == PROGRAM
    assert Artifact.parse(json.loads(json.dumps(planned().to_json()))) == planned()


@pytest.mark.parametrize(
    ("place", "wrong", "message"),
    [
        ("grid", [1, 1], "three expressions"),
        ("grid", [1, 1, "y ?"], "expected a number, a leaf"),
        ("kernel", "two words", "symbol name"),
        ("overlap", 1, "expected bool"),
        ("parameters", [{"size": 4, "words": [[0, 8, 1]]}], "the word ends after its parameter"),
        ("parameters", [{"size": 8, "words": [[0, 3, 1]]}], "a width of 1, 2, 4 or 8"),
        ("parameters", [{"size": 8, "words": [[-1, 4, 1]]}], "expected an offset"),
        ("parameters", [{"size": 8, "words": [[0, 4]]}], "expected an offset"),
        ("parameters", [{"size": 8, "words": [[True, 4, 1]]}], "expected an offset"),
        ("parameters", [{"size": 4000, "words": []}] * 2, "more than 4096 bytes"),
        ("parameters", [{"size": 5000, "words": []}], "not between 0 and 4096"),
        ("more", 1, "unknown"),
    ],
)
def test_what_is_no_program_is_refused(place: str, wrong: Any, message: str) -> None:
    data = json.loads(json.dumps(PROGRAM.to_json()))
    data["steps"][1][place] = wrong
    with pytest.raises(FormatError, match=message):
        HostProgram.parse(data)


@pytest.mark.parametrize("leaf", ["z.shape[0]", "x.shape[2]", "factor", "x.bits", "bias", "stream"])
def test_a_program_names_only_what_its_kernel_takes(leaf: str) -> None:
    PROGRAM.check(SIGNATURE)
    with pytest.raises(FormatError, match="is not in"):
        HostProgram(steps=(replace(STEP, shared=leaf),)).check(SIGNATURE)
    word = Parameter(size=8, words=(Word(0, 8, leaf),))
    with pytest.raises(FormatError, match="is not in"):
        HostProgram(steps=(replace(STEP, parameters=(word,)),)).check(SIGNATURE)


@pytest.mark.parametrize("leaf", ["x.data", "factor.bits"])
def test_no_address_and_no_real_number_decides_a_launch(leaf: str) -> None:
    """What was worked out for one call is used for all others of the same sizes."""
    for change in ({"when": leaf}, {"grid": (1, leaf, 1)}, {"shared": leaf}):
        with pytest.raises(FormatError, match="must not decide a launch"):
            HostProgram(steps=(replace(STEP, **change),)).check(SIGNATURE)


def test_an_index_holds_programs_of_cubins_only() -> None:
    data = planned().to_json()
    with pytest.raises(FormatError, match="only a cubin has a host program"):
        Artifact.parse({**data, "kind": "object", "host": {"arch": "x86_64", "glibc": "2.17"}})
    with pytest.raises(FormatError, match="an object needs its host"):
        Artifact.parse({**artifact(BLOB, {"dtype": "float32"}).to_json(), "host": None})
