"""Comparing: NaN, infinity, overflow and tolerance, whatever the size of the pieces."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from precast.kernels.authoring.declare import Tolerance
from precast.measure.checks import compare as module
from precast.measure.checks.compare import compare, differing

HALF = Tolerance(rtol=0.0, atol=0.5)


@pytest.mark.parametrize(
    ("dtype", "found", "expected", "right"),
    [
        (torch.float32, math.nan, math.nan, True),
        (torch.float32, math.nan, 1.0, False),
        (torch.float32, 1.0, math.nan, False),
        (torch.float32, math.inf, math.inf, True),
        (torch.float32, math.inf, -math.inf, False),
        (torch.float32, 3.4e38, math.inf, False),
        (torch.float16, math.inf, 1e6, True),
        (torch.float16, 65504.0, 1e6, True),
        (torch.float16, -math.inf, 1e6, False),
        (torch.float16, 65000.0, 1e6, False),
        (torch.float32, 1.5, 1.0, True),
        (torch.float32, 1.6, 1.0, False),
        (torch.int32, 7, 7, True),
        (torch.int32, 7, 8, False),
    ],
)
def test_one_value(dtype: torch.dtype, found: float, expected: float, right: bool) -> None:
    of = torch.float64 if dtype.is_floating_point else dtype
    result = compare(torch.tensor([found], dtype=dtype), torch.tensor([expected], dtype=of), HALF)
    assert (result.fault == "") == right, result


@pytest.mark.parametrize("piece", [1, 3, 7, 1 << 20])
@pytest.mark.parametrize("shape", [(), (13,), (5, 4), (3, 2, 2), (0, 4)])
def test_pieces_do_not_matter(shape: tuple[int, ...], piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PIECE", piece)
    found: Any = torch.arange(float(torch.Size(shape).numel())).view(shape)
    assert compare(found, found.double(), None).error == 0.0 and differing(found, found) == ""
    if found.numel():
        last = tuple(size - 1 for size in shape)
        wrong = found.clone()
        wrong[last] += 2.0
        result = compare(wrong, found.double(), HALF)
        assert result.error == 4.0 and f"1 of {found.numel()} values differ, the first at {list(last)}" in result.fault
        assert differing(wrong, found).startswith("1 of ")


def test_the_nearer_of_two_references_counts() -> None:
    found, zero = torch.tensor([1.0, 0.0]), torch.zeros(2)
    assert compare(found, torch.tensor([1.0, 1.0]), None, zero).fault == ""
    assert compare(found, torch.tensor([2.0, 1.0]), None, zero).fault


def test_numbers_that_differ_are_printed_so_that_they_do() -> None:
    one = torch.tensor([-3.48028])
    fault = compare(one, one.nextafter(torch.tensor([0.0])), None).fault
    assert "differ by at most 2e-07" in fault and "no tolerance is declared, so values must be equal" in fault
    found, expected = fault.split("]: ")[1].split(";")[0].split(" instead of ")
    assert found != expected


def test_another_shape_is_the_fault_of_the_reference() -> None:
    assert "correct the reference" in compare(torch.zeros(2), torch.zeros(3), None).fault


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2])
def test_units_in_the_last_place(dtype: torch.dtype) -> None:
    """Half a unit is within 0.75 of one, at any value; a whole one is not, and neither are NaN and what overflows."""
    kind = torch.finfo(dtype)
    for value in (1.0, 1.25, 1.5, 3.0, 100.0, kind.smallest_normal, kind.smallest_normal / 2):
        exponent = max(math.floor(math.log2(value)), math.log2(kind.smallest_normal))
        unit = 2.0**exponent * kind.eps
        stored = torch.tensor([value]).to(dtype)
        near, far = (torch.tensor([stored.double().item() + part * unit], dtype=torch.float64) for part in (0.5, 1.0))
        ulps = Tolerance(rtol=0.0, atol=0.0, ulps=0.75)
        assert compare(stored, near, ulps).error == pytest.approx(2 / 3)
        assert compare(stored, far, ulps).error == pytest.approx(4 / 3)
        assert compare(torch.full_like(stored, math.nan), near, ulps).fault
        assert compare(stored, torch.tensor([1e300], dtype=torch.float64), ulps).fault
