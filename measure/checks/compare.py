"""Comparing: a result with the reference's, within a tolerance; and two results, bit by bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.declare import Tolerance

_PIECE = 1 << 24  # elements compared at a time: a comparison in float64 takes many times the memory of a result


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a result is from what was expected: the largest error, as a share of the tolerance, and what differs."""

    error: float
    fault: str = ""


def compare(result: Any, expected: Any, tolerance: Tolerance | None, alternative: Any = None) -> Difference:
    """Compare a result with the reference, or with the nearer of two.

    NaN must be where the reference has NaN, and infinity where it has infinity. A value beyond the range of the
    result's dtype may be stored as infinity or as the largest number. Without a tolerance, and for integers, values
    must be equal.

    >>> import torch
    >>> compare(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), Tolerance(rtol=0.125, atol=0.0)).fault
    '2 times the tolerance; 1 of 2 values differ, the first at [1]: 2.5 instead of 2'
    """
    if result.shape != expected.shape:
        wrong = f"the reference has shape {tuple(expected.shape)}, not {tuple(result.shape)}: correct the reference"
        return Difference(math.inf, wrong)
    worst, wrong_count, missing, first, away = 0.0, 0, 0, "", 0.0
    for start, piece, *others in _pieces(result, expected, alternative):
        shares = [_share(piece, other, tolerance) for other in others if other is not None]
        share = shares[0] if len(shares) == 1 else shares[0].minimum(shares[1])
        bad = share > 1.0
        worst = max(worst, float(share.max()))
        if not first and bool(bad.any()):
            first = _first(start, piece, others[0], bad)
        if not tolerance and result.dtype.is_floating_point:
            away = max(away, _distance(piece, others[0], bad))
        wrong_count += int(bad.sum())
        if result.dtype.is_floating_point:
            missing += int((piece.double().isnan() & bad).sum())
    if not wrong_count:
        return Difference(worst)
    unwritten = f", {missing} left unwritten or NaN" if missing else ""
    times = "" if math.isinf(worst) else f"{worst:.3g} times the tolerance; "
    by = f" by at most {away:.1g}" if 0 < away < math.inf else ""
    undeclared = "; no tolerance is declared, so values must be equal" if by else ""
    text = f"{times}{wrong_count} of {result.numel()} values differ{by}{unwritten}, the first at {first}{undeclared}"
    return Difference(worst, text)


def differing(result: Any, other: Any) -> str:
    """How many values of two tensors differ in their bits, and the first of them; empty if none does.

    >>> import torch
    >>> differing(torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0]))
    '1 of 2 values, the first at [0]: 0 instead of -0'
    """
    number, first = 0, ""
    for start, a, b in _pieces(result, other):
        bad = (_bits(a) != _bits(b)).any(dim=-1).view(a.shape)
        if not first and bool(bad.any()):
            first = _first(start, a, b, bad)
        number += int(bad.sum())
    return f"{number} of {result.numel()} values, the first at {first}" if number else ""


def _bits(tensor: Any) -> Any:
    """The bytes of each element."""
    import torch

    flat = tensor.contiguous()
    flat = flat.as_strided((flat.numel(),), (1,))  # the stride of a dimension of one element may be any
    return flat.view(torch.uint8).view(tensor.numel(), tensor.element_size())


def _pieces(result: Any, *others: Any) -> Iterator[tuple[Any, ...]]:
    """Where each piece of the first dimension begins, and the piece of every tensor; None stays None."""
    if result.numel() == 0:
        return
    if result.dim() == 0:
        yield 0, result, *others
        return
    step = max(1, _PIECE * len(result) // result.numel())
    for start in range(0, len(result), step):
        yield start, *(t if t is None else t[start : start + step] for t in (result, *others))


def _share(result: Any, expected: Any, tolerance: Tolerance | None) -> Any:
    """The error of each value as a share of the tolerance: 0 for a right value, infinity where it is not a number."""
    import torch

    if not result.dtype.is_floating_point:
        return torch.where(result == expected.to(result.dtype), 0.0, math.inf)
    kind = torch.finfo(result.dtype)
    result, expected = result.double(), expected.double()
    allowed = torch.zeros_like(expected)
    if tolerance:
        allowed = tolerance.atol + tolerance.rtol * expected.abs()
        if tolerance.ulps:
            allowed += tolerance.ulps * _ulp(expected, kind)
    share = (result - expected).abs() / allowed
    share = share.nan_to_num(nan=math.inf, posinf=math.inf)
    overflow = (expected.abs() > kind.max) & expected.isfinite() & (result.abs() >= kind.max) & (result * expected > 0)
    same = (result == expected) | (result.isnan() & expected.isnan()) | overflow
    return torch.where(same, 0.0, share)


def _distance(result: Any, expected: Any, bad: Any) -> float:
    """The largest difference between the wrong values and what they must be."""
    differences = (result.double() - expected.double()).abs()[bad].nan_to_num(nan=math.inf, posinf=math.inf)
    return float(differences.max()) if differences.numel() else 0.0


def _ulp(values: Any, kind: Any) -> Any:
    """The distance between two numbers of a floating type, at each value."""
    import torch

    _, exponents = torch.frexp(values.abs().clamp(min=kind.smallest_normal))
    return kind.eps * torch.exp2(exponents.double() - 1)


def _first(start: int, result: Any, expected: Any, bad: Any) -> str:
    """Where the first wrong value is, what it is, and what it must be."""
    position = [int(i) for i in bad.nonzero()[0]] if bad.dim() else []
    index = tuple(position)
    at = [start + position[0], *position[1:]] if position else []
    return f"{at}: {' instead of '.join(_numbers(result[index].item(), expected[index].item()))}"


def _numbers(value: Any, other: Any) -> tuple[str, str]:
    """Two numbers with as many digits as tell them apart.

    >>> _numbers(1.0000001, 1.0), _numbers(3, 4)
    (('1.0000001', '1'), ('3', '4'))
    """
    for digits in (6, 9, 17):
        texts = f"{value:.{digits}g}", f"{other:.{digits}g}"
        if texts[0] != texts[1]:
            break
    return texts
