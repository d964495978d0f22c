"""``ldmatrix``, ``stmatrix``, ``movmatrix``."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering, Unsupported, lowers

_COUNTS = {"x1": 1, "x2": 2, "x4": 4}
_SHARED, _GENERIC = 2, 0


def _space(to: Lowering) -> int:
    return _SHARED if to.modifiers.option("shared", "shared::cta") else _GENERIC


@lowers("ldmatrix")
def load_matrix(to: Lowering) -> None:
    """``ldmatrix.sync.aligned.shape.num{.trans}.shared.type {registers}, [address]``."""
    words = to.modifiers
    words.choose("sync")
    words.choose("aligned")
    shape, count = words.choose("m8n8", "m16n16", "m8n16"), _COUNTS[words.choose(*_COUNTS)]
    transposed, space = words.take("trans"), _space(to)
    registers = [to.target(item, 32) for item in to.items(to.operands[0])]
    address = to.address(to.operands[1])
    if shape == "m8n8":
        words.type("b16")
        name, detail, expected = "ldmatrix", int(transposed), count
    elif shape == "m16n16":
        words.type("b8")
        name, detail, expected = "ldmatrix_bytes", 0, 2 * count
        if not transposed:
            raise Unsupported("ldmatrix of 16 x 16 bytes without .trans")
    else:
        words.choose("b8x16")
        name, detail, expected = (
            "ldmatrix_expanded",
            {"b4x16_p64": 4, "b6x16_p32": 6}[words.type("b4x16_p64", "b6x16_p32")],
            count,
        )
    if len(registers) != expected:
        raise Unsupported(f"{len(registers)} registers, not {expected}")
    to.emit(name, to.pool(registers), address, detail, space)


@lowers("stmatrix")
def store_matrix(to: Lowering) -> None:
    """``stmatrix.sync.aligned.shape.num{.trans}.shared.type [address], {registers}``."""
    words = to.modifiers
    words.choose("sync")
    words.choose("aligned")
    shape, count = words.choose("m8n8", "m16n8"), _COUNTS[words.choose(*_COUNTS)]
    transposed, space = words.take("trans"), _space(to)
    words.type("b16" if shape == "m8n8" else "b8")
    registers = [to.source(item) for item in to.items(to.operands[1])]
    if len(registers) != count:
        raise Unsupported(f"{len(registers)} registers, not {count}")
    if shape == "m16n8" and not transposed:
        raise Unsupported("stmatrix of bytes without .trans")
    name = "stmatrix" if shape == "m8n8" else "stmatrix_bytes"
    to.emit(name, to.pool(registers), to.address(to.operands[0]), int(transposed), space)


@lowers("movmatrix")
def move_matrix(to: Lowering) -> None:
    """``movmatrix.sync.aligned.m8n8.trans.b16 to, from``."""
    for word in ("sync", "aligned", "m8n8", "trans"):
        to.modifiers.choose(word)
    to.modifiers.type("b16")
    to.expect(2)
    to.emit("movmatrix", to.target(to.operands[0], 32), to.source(to.operands[1]))
