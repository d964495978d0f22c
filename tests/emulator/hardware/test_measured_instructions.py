"""The emulator gives the bits that a GPU gave: approximate functions, tensor cores, and scalar instructions."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
# Scalar cases whose bits differ from the measured ones, and why: none of them is in a kernel that ships.
KNOWN = {
    r"rsqrt\.approx\.f64": "a sequence of the compiler, within one step",
    r"rem\..*": "the remainder of a division by zero is not defined",
    r"bf[ei]\..*64": "a position or a length of more than 64 bits is not defined",
    r"cvt\.r[nzmp]i\..*\.f64": "a NaN as an integer is not defined",
    r"cvt\.r[mp]\.ftz.*\.f16\.f32": "a subnormal number is flushed before it is rounded",
    r"cvt\.ftz\.f32\.bf16": "subnormal numbers of bfloat16 are not flushed",
    r"cvt\.rna.*tf32.*": "a NaN keeps its payload on the GPU",
    r"cvt\.rn\.relu\.f16x2\.e.*": "a negative zero becomes a positive one on the GPU",
    r"testp\.normal\.f32": "zero counts as normal on the GPU",
    r"atom\.global\.add\.f64": "a NaN keeps its payload on the GPU",
    r"atom\.shared\.add\.noftz\..*x2": "one half is added on the GPU, by the assembler's own sequence",
}


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program that replays stored results, which is a file of benchmarks/."""
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import importlib

    return importlib.import_module("instructions.replay")


@pytest.fixture
def stored(replay: ModuleType) -> Any:
    return replay.load(replay.STORED)


@pytest.mark.slow
def test_approximate_functions_have_the_bits_of_a_gpu(replay: ModuleType, stored: Any) -> None:
    results = list(replay.approximations(stored))
    assert len(results) > 50
    assert [r.name for r in results if r.different] == []


def test_tensor_cores_add_as_those_of_a_gpu(replay: ModuleType, stored: Any) -> None:
    results = list(replay.tensor_products(stored))
    assert len(results) > 30
    assert [(r.name, r.refused) for r in results if r.different or r.refused] == []


@pytest.mark.parametrize("step", [pytest.param(1, id="all", marks=pytest.mark.slow), 10])
def test_scalar_instructions_have_the_bits_of_a_gpu(
    replay: ModuleType, stored: Any, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = list(replay.cases())[::step]
    monkeypatch.setattr(replay, "cases", lambda: some)
    results = list(replay.scalar(stored))
    different = [r for r in results if r.different and not any(re.fullmatch(k, r.name) for k in KNOWN)]
    assert [(r.name, r.example) for r in different] == []
    assert sum(not r.different and not r.refused for r in results) > 1150 // step - step


def test_a_checksum_finds_one_changed_bit(replay: ModuleType, stored: Any) -> None:
    name, opcode, words = next(iter(replay.arguments()))
    changed = {**stored, name: stored[name].copy()}
    changed[name][3] ^= 1
    first = next(iter(replay.approximations(changed)))
    assert (first.name, first.different) == (name, 1), opcode
    assert len(words) > 0
