"""What a miss says: a server logs it, so an op with hundreds of variants and long configs must not fill the log."""

from __future__ import annotations

import pytest

from precast.loader.contract.format.target import Target
from precast.loader.errors import VariantNotFound
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.judge import resolve
from precast.loader.resolve.not_found import refuse
from tests.helpers.resolutions import HERE, scale, source


def miss(*sources: CachedOp, machine: Machine = HERE, **config: object) -> str:
    with pytest.raises(VariantNotFound) as caught:
        refuse(resolve(Request(op="scale", config=config), machine, sources, full=True))
    return str(caught.value)


def test_a_miss_among_hundreds_is_short() -> None:
    """As ``gemm`` of the shipped manifests, whose message once had 102,448 characters."""
    text = miss(source(*(scale(threads=n) for n in range(500)), scale(dtype="float16")), dtype="f32")
    lines = text.splitlines()
    assert len(lines) < 40 and len(text) < 4000
    assert lines[1].startswith("scale {dtype: f32} ")
    assert "dtype is 'bfloat16', not 'float32'" in lines[3] and "dtype is 'float16', not 'float32'" in lines[4]
    assert lines[5] == "and 499 more: loader.explain(...) lists them"
    assert lines[-3:] == ["    - kernel: scale", "      config: {dtype: float32}", "      targets: [sm_90a]"]


def test_a_candidate_with_only_other_tuned_keys_is_not_repeated() -> None:
    text = miss(source(*(scale(threads=n) for n in range(3))), dtype="f32")
    assert text.count("dtype is 'bfloat16'") == 1 and "and 2 more:" in text


def test_a_line_about_a_candidate_is_cut_but_not_the_manifest() -> None:
    long = "x" * 1000
    text = miss(source(scale(layout=long)), dtype="bf16", layout="row")
    assert all(len(line) <= 300 for line in text.splitlines())
    asked = miss(source(scale()), dtype="bf16", layout=long)
    assert len(asked.splitlines()[1]) <= 300 and f"layout: {long}" in asked, "the lines to copy are whole"


def test_with_a_target_it_speaks_of_the_target() -> None:
    text = miss(source(scale("sm_90a")), machine=HERE.supposing(Target(8, 0)), dtype="bf16")
    assert "built for sm_90a, sm_80 was requested" in text and "this GPU" not in text
    assert "built for sm_90a, this GPU is" in miss(source(scale("sm_100a")), dtype="bf16").replace("sm_100a", "sm_90a")
