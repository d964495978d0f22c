"""Rows as float8 with scales: ``quantize_fp8``, its inverse, and ``silu_and_mul_fp8``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.kernels.own import float8
from precast.kernels.own.tiles import Tile
from precast.loader.contract.format.target import Target
from precast.measure.checks.compare import compare
from tests.helpers.kernels.stand_in import check_verify, full

SM90 = Target.parse("sm_90a")
HALF = {"dtype": "bfloat16", "width": 256}


@pytest.mark.parametrize(
    ("op", "config"),
    [
        ("quantize_fp8", {**HALF, "block": 128}),
        ("quantize_fp8", {"dtype": "float32", "width": 144}),
        ("dequantize_fp8", {**HALF, "block": 128}),
        ("dequantize_fp8", {"dtype": "float16", "width": 144}),
        ("silu_and_mul_fp8", HALF),
    ],
)
def test_a_right_kernel_passes_verify_and_a_wrong_one_does_not(op: str, config: dict[str, Any]) -> None:
    check_verify(op, config)


@pytest.mark.parametrize("block", [None, 128])
@pytest.mark.parametrize("size", [1.0, 1e-6, 3e4])
def test_the_way_there_and_back_keeps_the_direction(block: int | None, size: float) -> None:
    x = torch.randn(7, 512, dtype=torch.float64) * size
    out, scale = float8.quantized(x, block)
    assert scale.shape == ((4, 7) if block else (7,))
    assert out.abs().amax() <= 448 * (1 + 1e-12)
    back = float8.dequantized(out.to(torch.float8_e4m3fn), scale.float())
    assert torch.cosine_similarity(back.flatten(), x.flatten(), dim=0) > 0.999
    assert (back - x).abs().amax() <= x.abs().amax() / 448 * 16.5, "half a step of the largest numbers"


def test_zeros_have_a_scale() -> None:
    out, scale = float8.quantized(torch.zeros(2, 256, dtype=torch.float64), 128)
    assert (out == 0).all() and torch.allclose(scale, torch.tensor(1e-10 / 448, dtype=torch.float64), atol=0)


def test_each_block_has_the_scale_of_its_own_values() -> None:
    x = torch.ones(3, 384, dtype=torch.float64)
    x[1, 128:256] *= -896.0
    _, scale = float8.quantized(x, 128)
    assert scale[1, 1] == 2.0 and (scale * 448 == 1).sum() == 8


def test_silu_and_mul_in_float32_stays_within_the_bound() -> None:
    config, declaration = (
        full("silu_and_mul_fp8", {**HALF, "width": 512}),
        declaration_of(load(find("silu_and_mul_fp8"))),
    )
    assert declaration.inputs and declaration.reference and declaration.tolerance
    inputs = declaration.inputs(config, {"rows": 65, "padding": 16}, device="cpu", seed=1)
    expected = declaration.reference(config, inputs)
    gate, up = inputs["x"].float().chunk(2, dim=-1)
    out, scale = float8.quantized(gate / (1.0 + torch.exp(-gate)) * up, 128)
    allowed = declaration.tolerance(config)
    assert compare(scale.float(), expected["scale"], allowed).error < 0.9
    assert compare(out.to(torch.float8_e4m3fn), expected["out"], allowed).error < 0.9
    assert compare((out * 1.1).to(torch.float8_e4m3fn), expected["out"], allowed).error > 1


@given(st.integers(1, 30), st.sampled_from([4, 8]), st.sampled_from([32, 64, 128, 512]), st.sampled_from([1, 2, 4]))
def test_lanes_that_share_a_scale_are_of_one_warp_and_have_all_of_a_block(
    count: int, vector: int, threads: int, unroll: int
) -> None:
    tile, width, lanes = Tile(vector, threads, unroll), count * float8.BLOCK, float8.BLOCK // vector
    written = []
    for part in range(tile.blocks(width)):
        _, start = tile.position(part, tile.blocks(width))
        for u in range(unroll):
            for first in range(0, threads, lanes):
                columns = [tile.offset(tile.first(start, first + lane), u) for lane in range(lanes)]
                assert first // 32 == (first + lanes - 1) // 32
                assert columns[0] % float8.BLOCK == 0, "the first of them stores the scale"
                assert columns == [columns[0] + lane * vector for lane in range(lanes)]
                assert len({column < width for column in columns}) == 1
                written += [columns[0]] if columns[0] < width else []
    assert sorted(written) == list(range(0, width, float8.BLOCK))


@pytest.mark.parametrize(
    ("op", "config", "reason"),
    [
        ("quantize_fp8", {"dtype": "bfloat16", "width": 136}, "width is 136: use a multiple of 16"),
        ("quantize_fp8", {"dtype": "bfloat16", "width": 144, "block": 128}, "width is 144: use a multiple of 128"),
        ("quantize_fp8", {"dtype": "int8", "width": 128}, "use one of float32, float16, bfloat16"),
        ("dequantize_fp8", {**HALF, "unroll": 3}, "unroll is 3: use one of 1, 2, 4"),
        ("silu_and_mul_fp8", {**HALF, "width": 64}, "width is 64: use a multiple of 128"),
        ("silu_and_mul_fp8", {**HALF, "threads": 32}, "threads is 32: use one of 64"),
    ],
)
def test_what_cannot_be_built_is_refused(op: str, config: dict[str, Any], reason: str) -> None:
    assert reason in str(declaration_of(load(find(op))).refusal(full(op, config), SM90))
