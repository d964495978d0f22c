"""``scale``, ``add`` and ``apply`` in both forms: their references, bounds and problems, and what they refuse."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precast.kernels import declaration_of
from precast.kernels.authoring.dtypes import to_torch
from precast.kernels.authoring.registry import find, load
from precast.kernels.own.elementwise import forms
from precast.kernels.own.gelu import log2_odds
from precast.kernels.own.tiles import Tile
from precast.loader.contract.format.target import Target
from precast.measure.checks.compare import compare
from tests.helpers.kernels.stand_in import check_verify, full

SM90 = Target.parse("sm_90a")
FUNCTIONS = ("relu", "gelu", "gelu_tanh", "silu", "sigmoid", "square")
CASES: list[tuple[str, dict[str, Any]]] = [
    ("scale", {"rank": 2}),
    ("add", {"rank": 2}),
    *(("apply", {"function": function}) for function in FUNCTIONS),
]


@pytest.mark.parametrize(("op", "config"), CASES)
def test_a_right_kernel_passes_verify_and_a_wrong_one_does_not(op: str, config: dict[str, Any]) -> None:
    check_verify(op, {"dtype": "bfloat16", "threads": 32, "unroll": 1, **config})


@pytest.mark.parametrize("rank", [1, 2])
def test_problems_have_every_boundary_and_aligned_rows(rank: int) -> None:
    config = full("add", {"dtype": "bfloat16", "rank": rank})
    vector, tile = forms.tile_of(config).vector, forms.tile_of(config).size
    problems = forms.problems(config)
    lengths = {problem.get("n", problem.get("columns")) for problem in problems}
    assert lengths >= {0, 1, vector - 1, vector, vector + 1, tile - 1, tile, tile + 1}
    for problem in [*problems, forms.large(config)]:
        assert (problem.get("columns", 0) + problem.get("padding", 0)) % vector == 0
    large = forms.large(config)
    assert large.get("n", large.get("rows", 0) * large.get("columns", 0)) > 2**31


def in_float32(function: str, x: torch.Tensor, dtype: str) -> torch.Tensor:
    """As the kernel computes it, for results of a dtype."""

    def logistic(x: torch.Tensor) -> torch.Tensor:
        return 1.0 / (1.0 + torch.exp2(-x))

    log2_e, root = math.log2(math.e), math.sqrt(8 / math.pi)
    exact = 0.5 * x * (1.0 + torch.erf(x * math.sqrt(0.5)))
    return {
        "relu": torch.where(x < 0, 0.0, x),
        "gelu": exact if dtype == "float32" else x * logistic(log2_odds(x)),
        "gelu_tanh": x * logistic(x * (root * log2_e + 0.044715 * root * log2_e * (x * x))),
        "silu": x * logistic(x * log2_e),
        "sigmoid": logistic(x * log2_e),
        "square": x * x,
    }[function]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gelu_of_16_bits_takes_a_tenth_of_what_is_allowed_everywhere(dtype: str) -> None:
    """On a grid far finer than the dtype's numbers, before anything is rounded to it."""
    x = torch.linspace(-60, 60, 1_200_001)
    exact = 0.5 * x.double() * torch.special.erfc(-x.double() * math.sqrt(0.5))
    quarter = 0.25 * torch.finfo(to_torch(dtype)).eps * torch.exp2(exact.abs().clamp(min=2.0**-126).log2().floor())
    # What float32 leaves of 1 + erf where they cancel, and the rounding of an exponent near -20 and of its power.
    allowed = quarter + 6 * 2.0**-22
    off = (in_float32("gelu", x, dtype).double() - exact).abs()
    assert (off / allowed).max() < 0.1
    least = torch.tensor([-3e38, -1e30, -61.0, 61.0, 1e30, 3e38, float("inf")])
    assert in_float32("gelu", least, dtype).equal(torch.where(least < 0, -0.0, least))
    wrong = x * 1.0 / (1.0 + torch.exp2(-log2_odds(x) * 1.001))
    assert ((wrong.double() - exact).abs() / allowed).max() > 1, "the grid sees a coefficient that is off"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_in_float32_stay_within_the_bound(function: str, dtype: str) -> None:
    config = full("apply", {"dtype": dtype, "function": function})
    declaration = declaration_of(load(find("apply")))
    assert declaration.inputs and declaration.reference and declaration.tolerance
    inputs = declaration.inputs(config, {"n": 40000}, device="cpu", seed=2)
    expected = declaration.reference(config, inputs)["out"]
    found = in_float32(function, inputs["x"].float(), dtype).to(inputs["out"].dtype)
    assert compare(found, expected, declaration.tolerance(config)).error < 0.9
    other = in_float32("silu" if function != "silu" else "gelu", inputs["x"].float(), dtype).to(found.dtype)
    assert compare(other, expected, declaration.tolerance(config)).error > 10
    assert in_float32(function, torch.tensor([float("nan")]), dtype).isnan().all()


@given(
    rows=st.integers(0, 5),
    columns=st.integers(0, 900),
    vector=st.sampled_from([4, 8]),
    threads=st.sampled_from([32, 64]),
    unroll=st.sampled_from([1, 2]),
)
def test_every_element_of_every_row_is_taken_once(
    rows: int, columns: int, vector: int, threads: int, unroll: int
) -> None:
    tile = Tile(vector, threads, unroll)
    parts = max(tile.blocks(columns), 1)
    taken: Counter[tuple[int, int]] = Counter()
    for block in range(max(rows * parts, 1)):
        row, start = tile.position(block, parts)
        if row >= rows:
            continue
        for thread in range(threads):
            offsets = [tile.offset(tile.first(start, thread), u) for u in range(unroll)]
            if not tile.full(start, columns):
                offsets = [offset for offset in offsets if tile.whole(offset, columns)]
                taken.update([(row, rest)] if (rest := tile.rest(columns, thread)) < columns else [])
            taken.update((row, column) for offset in offsets for column in range(offset, offset + vector))
    expected = Counter((row, column) for row in range(rows) for column in range(columns))
    assert taken == expected


@pytest.mark.parametrize(
    ("op", "config", "reason"),
    [
        ("add", {"dtype": "int8"}, "use one of float32, float16, bfloat16"),
        ("add", {"dtype": "float32", "threads": 96}, "threads is 96: use one of"),
        ("apply", {"dtype": "float32", "function": "relu", "unroll": 3}, "unroll is 3: use one of 1, 2, 4, 8"),
    ],
)
def test_what_cannot_be_built_is_refused(op: str, config: dict[str, Any], reason: str) -> None:
    assert reason in str(declaration_of(load(find(op))).refusal(full(op, config), SM90))


def test_a_value_beyond_the_choices_is_refused_at_once() -> None:
    from precast.loader.errors import ConfigError

    for op, config in (("apply", {"dtype": "float32", "function": "sin"}), ("add", {"dtype": "float32", "rank": 3})):
        with pytest.raises(ConfigError, match=r"sin|3"):
            full(op, config)
