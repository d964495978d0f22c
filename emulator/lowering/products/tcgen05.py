"""``tcgen05``: tensor memory, and what goes into it and out of it. Products are in ``tcgen05_mma``."""

from __future__ import annotations

from collections.abc import Callable

from precast.emulator.lowering.lowering import ABSENT, Lowering, Unsupported, lowers
from precast.emulator.lowering.products.tcgen05_mma import multiply

_SHAPES = {"32x32b": (0, 1), "16x64b": (1, 1), "16x128b": (2, 2), "16x256b": (3, 4), "16x32bx2": (4, 1)}
_COUNTS = {f"x{1 << i}": 1 << i for i in range(8)}
_COPIES = {"128x256b": 0, "4x256b": 1, "128x128b": 2, "64x128b": 3, "32x128b": 5}


@lowers("tcgen05")
def tensor_core(to: Lowering) -> None:
    """All that begins with ``tcgen05``."""
    word = to.modifiers.next()
    if word not in _INSTRUCTIONS:
        raise Unsupported(f"tcgen05.{word} is not emulated")
    _INSTRUCTIONS[word](to)


def _aligned(to: Lowering) -> None:
    to.modifiers.choose("sync")
    to.modifiers.choose("aligned")


def _group(to: Lowering) -> int:
    return int(to.modifiers.choose("cta_group::1", "cta_group::2")[-1])


def _allocate(to: Lowering) -> None:
    group = _group(to)
    _aligned(to)
    space = to.modifiers.option("shared::cta")
    to.modifiers.type("b32")
    address = to.address(to.operands[0])
    if not space and not address.wide:
        raise Unsupported("a generic address of 32 bits")
    to.emit("tcgen05_alloc", address, to.source(to.operands[1]), group)


def _free(to: Lowering) -> None:
    group = _group(to)
    _aligned(to)
    to.modifiers.type("b32")
    to.emit("tcgen05_dealloc", to.source(to.operands[0]), to.source(to.operands[1]), group)


def _relinquish(to: Lowering) -> None:
    _group(to)
    _aligned(to)
    to.emit("tcgen05_relinquish")


def _shape(to: Lowering, packing: str) -> tuple[int, int, bool, bool]:
    """The shape's number, its registers, whether they are packed, and whether it has a second half."""
    words = to.modifiers
    name = words.choose(*_SHAPES)
    number, registers = _SHAPES[name]
    count = _COUNTS[words.choose(*_COUNTS)]
    packed = words.take(packing)
    return number, registers * count, packed, name == "16x32bx2"


def _load(to: Lowering) -> None:
    words = to.modifiers
    reduces = words.take("red")
    _aligned(to)
    shape, count, packed, halves = _shape(to, "pack::16b")
    kind = _reduction(to) if reduces else 0
    if not reduces:
        words.type("b32")
    operands = list(to.operands)
    half = int(operands.pop(), 0) if halves else 0
    registers = [to.target(item, 32) for item in to.items(operands[0])]
    if len(registers) != count:
        raise Unsupported(f"{len(registers)} registers, not {count}")
    address = to.address(operands[-1])
    places = address.register, to.pool(registers), shape, int(packed), half, 0
    if reduces:
        to.emit("tcgen05_ld_red", *places, to.target(operands[1], 32), kind, immediate=address.offset)
    else:
        to.emit("tcgen05_ld", *places, immediate=address.offset)


def _reduction(to: Lowering) -> int:
    words = to.modifiers
    kind = int(words.choose("min", "max") == "max")
    kind |= 2 * words.take("abs") | 4 * words.take("NaN")
    element = words.type("f32", "s32", "u32")
    return kind | (8 if element != "f32" else 0) | (16 if element == "s32" else 0)


def _store(to: Lowering) -> None:
    _aligned(to)
    shape, count, packed, halves = _shape(to, "unpack::16b")
    to.modifiers.type("b32")
    to.expect(3 if halves else 2)
    half = int(to.operands[1], 0) if halves else 0
    registers = [to.source(item) for item in to.items(to.operands[-1])]
    if len(registers) != count:
        raise Unsupported(f"{len(registers)} registers, not {count}")
    address = to.address(to.operands[0])
    to.emit(
        "tcgen05_st",
        *(address.register, to.pool(registers), shape, int(packed), half, 1),
        immediate=address.offset,
    )


def _copy(to: Lowering) -> None:
    words = to.modifiers
    group = _group(to)
    shape = _COPIES[words.choose(*_COPIES)]
    if shape == _COPIES["64x128b"]:
        shape += words.choose("warpx2::02_13", "warpx2::01_23") == "warpx2::01_23"
    elif shape == _COPIES["32x128b"]:
        words.choose("warpx4")
    address = to.address(to.operands[0])
    to.emit("tcgen05_cp", address.register, address.offset, to.source(to.operands[1], bits=64), shape, group)


def _commit(to: Lowering) -> None:
    words = to.modifiers
    _group(to)
    words.choose("mbarrier::arrive::one")
    words.option("shared::cluster")
    multicast = words.take("multicast::cluster")
    words.type("b64")
    to.expect(2 if multicast else 1)
    mask = to.source(to.operands[1]) if multicast else ABSENT
    to.emit("tcgen05_commit", to.address(to.operands[0]), mask)


def _wait_load(to: Lowering) -> None:
    _aligned(to)
    to.emit("tcgen05_wait_ld")


def _wait_store(to: Lowering) -> None:
    _aligned(to)
    to.emit("tcgen05_wait_st")


def _fence(to: Lowering) -> None:
    """Orders what other instructions synchronise; nothing is done late here that it would have to wait for."""
    to.emit("tcgen05_fence")


_INSTRUCTIONS: dict[str, Callable[[Lowering], None]] = {
    "alloc": _allocate,
    "dealloc": _free,
    "relinquish_alloc_permit": _relinquish,
    "ld": _load,
    "st": _store,
    "cp": _copy,
    "commit": _commit,
    "mma": multiply,
    "wait::ld": _wait_load,
    "wait::st": _wait_store,
    "fence::before_thread_sync": _fence,
    "fence::after_thread_sync": _fence,
}
