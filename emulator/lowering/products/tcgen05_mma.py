"""``tcgen05.mma``: products into tensor memory."""

from __future__ import annotations

from dataclasses import dataclass

from precast.emulator.lowering.lowering import Lowering, Operand, Unsupported

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_IN_TENSOR_MEMORY, _WEIGHT_STATIONARY = 1, 2
_DEPTHS = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
_BLOCKS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
_USES = ("fill", "use", "lastuse", "discard")
_COLLECTORS = [f"collector::{buffer}::{use}" for buffer in ("a", "b0", "b1", "b2", "b3") for use in _USES]


@dataclass(slots=True)
class _Rest:
    """What follows the instruction descriptor."""

    masks: list[Operand]
    scales: list[tuple[Operand, int]]
    accumulates: Operand
    scale_d: int = 0


def multiply(to: Lowering) -> None:
    """``tcgen05.mma{.ws}.cta_group.kind{...} [d], a, b, descriptor, ...``."""
    words = to.modifiers
    stationary = words.take("ws")
    group = int(words.choose("cta_group::1", "cta_group::2")[-1])
    kind = words.choose(*(f"kind::{kind}" for kind in _KINDS)).removeprefix("kind::")
    blocks = _blocks(to, kind)
    words.option(*_COLLECTORS)
    d = to.address(to.operands[0])
    in_tensor_memory = to.operands[1].startswith("[")
    if in_tensor_memory:
        a_address = to.address(to.operands[1])
        a, a_offset = a_address.register, a_address.offset
    else:
        a, a_offset = to.source(to.operands[1], bits=64), 0
    b, descriptor = to.source(to.operands[2], bits=64), to.source(to.operands[3])
    rest = _rest(to, blocks, group, stationary)
    flags = _IN_TENSOR_MEMORY * in_tensor_memory | _WEIGHT_STATIONARY * stationary
    form = _KINDS.index(kind) | group << 8 | blocks << 16 | flags << 24 | rest.scale_d << 32 | len(rest.masks) << 40
    offsets = [offset for _, offset in rest.scales] or [0, 0]
    to.emit(
        "tcgen05_mma",
        *(d.register, d.offset, a, a_offset, b, descriptor, rest.accumulates),
        to.pool(rest.masks + [scale for scale, _ in rest.scales]),
        *offsets,
        immediate=form,
    )


def _blocks(to: Lowering, kind: str) -> int:
    """How many scales along K there are for a row of A; 0 without block scales."""
    words = to.modifiers
    if kind not in _DEPTHS:
        return 0
    words.choose("block_scale")
    vector = words.option(*_BLOCKS, "block16", "block32")
    if vector in _BLOCKS:
        return _BLOCKS[vector]
    if not vector and kind == "mxf4nvf4":
        raise Unsupported("the size of the blocks is missing")
    return _DEPTHS[kind] // (16 if vector == "block16" else 32)


def _rest(to: Lowering, blocks: int, group: int, stationary: bool) -> _Rest:
    rest = to.operands[4:]
    masks: list[Operand] = []
    scales: list[tuple[Operand, int]] = []
    if rest and rest[0].startswith("{"):
        masks = [to.source(item) for item in to.items(rest.pop(0))]
        if len(masks) != 4 * group:
            raise Unsupported(f"{len(masks)} masks of lanes")
    if blocks:
        for text in rest[:2]:
            address = to.address(text)
            scales.append((address.register, address.offset))
        rest = rest[2:]
    if not rest:
        raise Unsupported("whether it accumulates is missing")
    operands = _Rest(masks, scales, to.predicate(rest[0]))
    if len(rest) == 2 and not blocks and not stationary:
        operands.scale_d = int(rest[1], 0)
    elif len(rest) > 1:
        raise Unsupported(f"the operands {rest[1:]}")
    return operands
