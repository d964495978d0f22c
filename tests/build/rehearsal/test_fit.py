"""Fits: what explains numbers that were made by a known rule, and that nothing explains what no rule made."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping

import pytest

from precast.build.rehearsal import fit
from precast.loader.contract.format.program.expression import Expression, evaluate

Leaves = Mapping[str, int]
KNOWN = fit.Known(
    leaves=("x.data", "x.shape[0]", "x.shape[1]", "x.strides[0]", "n", "eps.bits"),
    sizes=("x.shape[0]", "x.shape[1]", "n"),
    spans=("x.span",),
    real=("eps.bits",),
)


def calls(count: int = 500) -> list[dict[str, int]]:
    draw, made = random.Random(1), []
    for _ in range(count):
        a, b, n = (
            draw.choice([1, 1, draw.randrange(5), draw.randrange(300), draw.randrange(1 << 20)]) for _ in range(3)
        )
        stride = draw.randrange(1 << draw.randrange(1, 37)) * 8
        eps = struct.unpack("<I", struct.pack("<f", draw.uniform(-9, 9)))[0]
        made.append({
            "x.data": (1 << 40) + draw.randrange(1 << 30), "x.shape[0]": a, "x.shape[1]": b, "x.strides[0]": stride,
            "n": n, "eps.bits": eps, "x.span": (a - 1) * stride + b,
        })  # fmt: skip
    return made


CALLS = calls()
Rule = Callable[[Leaves], int]


def checked(found: Expression | None, rule: Rule, mask: int = -1) -> bool:
    """Whether an expression was found, and gives what the rule gives, for other calls too."""
    assert found is not None
    return all(evaluate(found, call) & mask == rule(call) & mask for call in CALLS)


@pytest.mark.parametrize(
    "rule",
    [
        lambda c: 7,
        lambda c: max(-(-c["x.shape[0]"] // 160), 1),
        lambda c: 2 * -(-c["x.shape[0]"] // 320) * -(-c["x.shape[1]"] // 192),
        lambda c: max(c["x.shape[0]"] * max(-(-c["x.shape[1]"] // 2048), 1), 1),
        lambda c: max(-(-(c["x.shape[0]"] * c["x.shape[1]"]) // 1000), 1),
        lambda c: min(max(-(-(c["n"] // 8) // 512), 1), 64),
        lambda c: c["x.shape[0]"] * c["x.shape[1]"] * c["n"],
        lambda c: min(-(-c["x.shape[0]"] // 64) * -(-c["n"] // 128) * 32, 132),
    ],
)
def test_a_number_of_blocks(rule: Rule) -> None:
    assert checked(fit.count([rule(call) for call in CALLS], CALLS, KNOWN), rule)


def test_a_most_that_few_calls_are_below() -> None:
    """What explains all calls below the most may be wrong of those above it: then the next that does is tried."""
    powers = [(1 << bits) + near for bits in range(31) for near in (-1, 0, 1)]
    drawn = [{**CALLS[0], "n": n} for n in [*powers, *range(0, 9000, 70)]]

    def rule(call: Leaves) -> int:
        return min(max(-(-(call["n"] // 8) // 4096), 1), 64)

    found = fit.count([rule(call) for call in drawn], drawn, KNOWN)
    assert found is not None and all(evaluate(found, call) == rule(call) for call in drawn)


@pytest.mark.parametrize(
    ("bits", "rule"),
    [
        (64, lambda c: c["x.data"]),
        (32, lambda c: c["x.shape[0]"] - 1),
        (32, lambda c: c["x.strides[0]"] * 2 >> 4),
        (64, lambda c: c["x.strides[0]"] * 2),
        (32, lambda c: c["n"] * 576 + 5),
        (32, lambda c: max(c["x.shape[1]"], 1)),
        (32, lambda c: 0x46512 | (c["x.span"] >= 65536) << 21),
        (32, lambda c: 0x3F000000 | (c["x.strides[0]"] * 2 >> 36 & 15) << 4),
        (32, lambda c: c["eps.bits"]),
    ],
)
def test_a_word(bits: int, rule: Rule) -> None:
    mask = (1 << bits) - 1
    assert checked(fit.word([rule(call) & mask for call in CALLS], CALLS, KNOWN, bits), rule, mask)


def test_a_real_product() -> None:
    def rule(call: Leaves) -> int:
        (number,) = struct.unpack("<f", struct.pack("<I", call["eps.bits"]))
        (factor,) = struct.unpack("<f", struct.pack("<f", 1.4426950408889634))
        return int(struct.unpack("<I", struct.pack("<f", number * factor))[0])

    found = fit.word([rule(call) for call in CALLS], CALLS, KNOWN, 32)
    assert checked(found, rule, 0xFFFFFFFF) and isinstance(found, tuple) and found[0] == "float_mul"


@pytest.mark.parametrize(
    "rule",
    [
        lambda c: int(c["x.shape[0]"] * c["x.shape[1]"] > 0),
        lambda c: int(c["n"] >= 2),
        lambda c: 1,
        lambda c: int(c["x.span"] % (1 << 63) >= 65536),
    ],
)
def test_a_flag(rule: Rule) -> None:
    assert checked(fit.flag([rule(call) for call in CALLS], CALLS, KNOWN), rule)


def test_nothing_explains_what_no_rule_made() -> None:
    draw = random.Random(3)
    noise = [draw.randrange(1, 1 << 20) for _ in CALLS]
    assert fit.count(noise, CALLS, KNOWN) is None
    assert fit.word(noise, CALLS, KNOWN, 32) is None
    assert fit.flag([n & 1 for n in noise], CALLS, KNOWN) is None
    squared = [call["n"] ** 2 + 1 for call in CALLS]
    assert fit.count(squared, CALLS, KNOWN) is None and fit.word(squared, CALLS, KNOWN, 64) is None
