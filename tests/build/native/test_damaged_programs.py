"""Host programs and calls with random damage, through libprecast with sanitizers: refused, or launched as something."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast.loader.contract.format.index import digest
from tests.helpers.attacks import forge
from tests.helpers.caches import CacheWriter, Native, artifact
from tests.helpers.gpu.programs import LEAVES, PROGRAM, PROGRAMS, SIGNATURE
from tests.helpers.native.libprecast import LAUNCH_ERROR, OK, VARIANT_NOT_FOUND, LibprecastReader

SIZES = st.sampled_from((0, 1, 2, 4, 8, 17, -1, -8, 2**31 - 1, 2**31, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63)))
NUMBERS = SIZES | st.integers(-(2**63), 2**63 - 1)
VALUES: st.SearchStrategy[Any] = st.one_of(
    NUMBERS,
    st.sampled_from((None, True, 1.5, 2**70, "", "x", [], {}, *LEAVES, "x.shape[9]", "stream", ["mod", 1, 0])),
    st.tuples(st.sampled_from(("add", "mul", "shift", "low", "floor_div")), NUMBERS, st.sampled_from(LEAVES)).map(list),
)
TEXTS = ("float32", "float8_e4m3fn", "int64", "uint8", "bool", "cuda", "cpu", "tensor", "scalar", "none")
GOOD = "t1:0:2:32:1:4096;17,4;4,1 n t1:0:10:8:1:64;17;1 i2 b1 f1.5 f-2.0"


@st.composite
def tensors(draw: st.DrawFn) -> str:
    rank = draw(st.integers(1, 4))
    extents = [",".join(map(str, draw(st.lists(SIZES, min_size=rank, max_size=rank)))) for _ in range(2)]
    dtype = draw(st.sampled_from(("2:32:1", "10:8:1", "4:16:1", "255:255:65535")))
    device = draw(st.sampled_from(("1:0", "2:0", "2:63", "2:64", "2:-1", "1:7")))
    return f"t{device}:{dtype}:{draw(SIZES)};{extents[0]};{extents[1]}"


OTHERS = st.sampled_from(("n", "b1", "b2", "fnan", "finf", "f1e300"))
WORDS = st.one_of(tensors(), NUMBERS.map(lambda n: f"i{n}"), OTHERS)


@st.composite
def arguments(draw: st.DrawFn) -> str:
    words = GOOD.split(" ")
    for place in draw(st.lists(st.integers(0, 6), max_size=3)):
        words[place] = draw(WORDS)
    return " ".join(words)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in ((*here, key), *places(item, (*here, key)))]


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    """What of an artifact decides a call, with up to three values that are others."""
    program = draw(PROGRAMS | st.just(PROGRAM))
    row: dict[str, Any] = {"program": program.to_json(), "signature": SIGNATURE.to_json()}
    for _ in range(draw(st.integers(0, 3))):
        found = places(row)
        *way, last = draw(st.sampled_from(found))
        inner = row
        for step in way:
            inner = inner[step]
        kept = inner[last]
        inner[last] = draw(st.sampled_from(TEXTS) if isinstance(kept, str) and "." not in kept else VALUES)
    return row


def kernels(row: dict[str, Any]) -> bytes:
    """Device code from which the stand-in for the driver knows the kernels of a program, whatever that is."""
    try:
        steps = [[step["kernel"], *[f"{p['size']:d}" for p in step["parameters"]]] for step in row["program"]["steps"]]
        return f"kernels {'; '.join(map(' '.join, steps))}".encode()
    except (TypeError, ValueError, KeyError):
        return b"none"


def written(folder: Path, native: Native, row: dict[str, Any]) -> Path:
    """A cache of the op ``op``, which is one cubin with these fields."""
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    writer.op("op", [artifact(writer.keep(kernels(row), "raw"), {}, symbol="first", kind="cubin", host=None)], keys=())
    root = writer.write(folder)
    op = json.loads((root / "ops" / "op.json").read_bytes())
    artifacts = [{**op["artifacts"][0], **row, "key": digest(repr(row).encode())}]
    forge(root, "op", json.dumps({**op, "artifacts": artifacts}).encode())
    return root


@pytest.mark.slow
def test_nothing_is_done_beyond_its_memory(native: Native, tmp_path: Path, libprecast: LibprecastReader) -> None:
    seen, driver = Counter[int](), native.launches()

    @settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
    @given(rows(), arguments())
    def attack(row: dict[str, Any], words: str) -> None:
        root = written(tmp_path / "cache", native, row)
        answer = libprecast.ask(root, "op", command="call", target=None, cuda=driver, arguments=words)
        seen[answer.status] += 1

    attack()
    assert seen[OK] > 10 and seen[LAUNCH_ERROR] > 50 and seen[VARIANT_NOT_FOUND] > 50, seen


def test_a_whole_one(native: Native, tmp_path: Path, libprecast: LibprecastReader) -> None:
    root = written(tmp_path / "cache", native, {"program": PROGRAM.to_json(), "signature": SIGNATURE.to_json()})
    answer = libprecast.ask(root, "op", command="call", target=None, cuda=native.launches(), arguments=GOOD)
    assert answer.status == OK, answer


@pytest.mark.slow
def test_extreme_sizes(native: Native, tmp_path: Path, libprecast: LibprecastReader) -> None:
    """Sizes whose products and spans are beyond 64 bits, where the signature allows them."""
    signature = SIGNATURE.to_json()
    signature["symbols"]["n"]["dtype"] = "int64"
    signature["arguments"][0]["shape"] = ["n", "s"]
    root = written(tmp_path / "cache", native, {"program": PROGRAM.to_json(), "signature": signature})
    extremes, driver = (-(2**63), 2**63 - 8, -1, 3, 2**32, 2**62), native.launches()
    for n in extremes:
        for m in extremes:
            for stride in extremes:
                x = f"t1:0:2:32:1:4096;{n},{m // 4 * 4};{stride // 4 * 4},1"
                words = f"{x} n t1:0:10:8:1:64;{n};{stride} i2 b1 f1.5 f-2.0"
                answer = libprecast.ask(root, "op", command="call", target=None, cuda=driver, arguments=words)
                assert answer.status in (OK, LAUNCH_ERROR), answer
