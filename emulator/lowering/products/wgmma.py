"""``wgmma``: products of a warpgroup."""

from __future__ import annotations

import re

from precast.emulator.lowering.lowering import ABSENT, Lowering, Unsupported, lowers
from precast.emulator.lowering.products.elements import ACCUMULATORS, ELEMENTS, INTEGERS, bits_of

_SHAPE = re.compile(r"m64n(\d+)k(\d+)$")
_A_IN_REGISTERS, _A_TRANSPOSED, _B_TRANSPOSED, _NEGATE_A, _NEGATE_B, _SATURATES = (1 << i for i in range(6))


@lowers("wgmma")
def warpgroup(to: Lowering) -> None:
    """``wgmma.fence``, ``commit_group``, ``wait_group`` and ``mma_async``."""
    words = to.modifiers
    what = words.choose("fence", "commit_group", "wait_group", "mma_async")
    words.choose("sync")
    words.choose("aligned")
    if what == "fence":
        to.emit("wgmma_fence")
    elif what == "commit_group":
        to.emit("wgmma_commit")
    elif what == "wait_group":
        to.emit("wgmma_wait", immediate=int(to.operands[0], 0))
    else:
        _product(to)


def _product(to: Lowering) -> None:
    words = to.modifiers
    shape = _SHAPE.match(words.next())
    if shape is None:
        raise Unsupported("its shape is not emulated")
    columns, depth = int(shape[1]), int(shape[2])
    saturates = words.take("satfinite")
    sums, left, right = words.next(), words.next(), words.next()
    if sums not in ACCUMULATORS or left not in ELEMENTS or right not in ELEMENTS:
        raise Unsupported(f"a product of {left} and {right} into {sums}")
    if (left in INTEGERS) != (sums == "s32") or depth * bits_of(left) != 256:
        raise Unsupported(f"a product of {left} into {sums} with K = {depth}")
    accumulators = [to.both(item, 32) for item in to.items(to.operands[0])]
    if len(accumulators) != columns * (1 if sums == "f16" else 2) // 4:
        raise Unsupported(f"{len(accumulators)} registers for {columns} columns of {sums}")
    in_registers = to.operands[1].startswith("{")
    flags = _SATURATES * saturates | _A_IN_REGISTERS * in_registers | _signs(to, left, in_registers)
    a = ABSENT
    if in_registers:
        accumulators += [to.source(item) for item in to.items(to.operands[1])]
    else:
        a = to.source(to.operands[1], bits=64)
    to.emit(
        "wgmma",
        *(to.pool(accumulators), a, to.source(to.operands[2], bits=64), to.predicate(to.operands[3])),
        *(columns, depth, ELEMENTS[left], ELEMENTS[right], ACCUMULATORS[sums]),
        immediate=flags,
    )


def _signs(to: Lowering, left: str, in_registers: bool) -> int:
    """The numbers after scale-d: scales of A and B, 1 or -1, and whether they are transposed."""
    rest = [int(text, 0) for text in to.operands[4:]]
    expected = 0 if left in INTEGERS else 2 if bits_of(left) != 16 else 3 if in_registers else 4
    if len(rest) != expected or any(sign not in (1, -1) for sign in rest[:2]):
        raise Unsupported(f"the numbers {rest} after scale-d")
    flags = 0
    for number, flag in zip(rest[:2], (_NEGATE_A, _NEGATE_B), strict=False):
        flags |= flag * (number == -1)
    transposed = (_B_TRANSPOSED,) if in_registers else (_A_TRANSPOSED, _B_TRANSPOSED)
    for number, flag in zip(rest[2:], transposed, strict=False):
        flags |= flag * (number == 1)
    return flags
