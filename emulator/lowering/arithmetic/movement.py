"""``mov``: between registers, and of parts of a register; ``cvta`` and ``isspacep``."""

from __future__ import annotations

from precast.emulator.lowering.lowering import ABSENT, Lowering, Operand, Unsupported, lowers

_SIZES = {
    "pred": 1,
    **{f"{kind}{bits}": bits for kind in "busf" for bits in (16, 32, 64)},
    "b128": 128,
    "f16": 16,
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
    "b8": 8,
}
_CLOCKS = ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")


@lowers("mov")
def move(to: Lowering) -> None:
    """``mov``: also packs ``{a, b}`` into a register, and takes one apart."""
    bits = _SIZES[to.modifiers.type(*_SIZES)]
    to.expect(2)
    target, source = to.operands
    if target.startswith("{"):
        _unpack(to, to.items(target), to.source(source, bits), bits)
    elif source.startswith("{"):
        _pack(to, to.target(target, bits), to.items(source), bits)
    elif bits == 1:
        to.emit("mov_pred", to.target(target, 1), to.predicate(source))
    elif bits == 128:
        to.emit("mov_128", to.target(target, 128), to.source(source, 128))
    elif source in _CLOCKS:
        raise Unsupported(f"{source} is a clock: an emulation has none")
    else:
        to.emit("mov_64" if bits == 64 else "mov_32", to.target(target, bits), to.source(source, bits))


def _unpack(to: Lowering, items: list[str], source: Operand, bits: int) -> None:
    width = bits // len(items)
    names = {
        (32, 16): ("low_half", "high_half"),
        (64, 32): ("low_word", "high_word"),
        (128, 64): ("low_double", "high_double"),
    }
    targets = [to.target(item, width) if item != "_" else ABSENT for item in items]
    written = [target for target in targets if not target.absent]
    if (bits, width) in names:
        operations = names[bits, width]
        overlaps = any(target.register == source.register for target in written)
        if overlaps:  # the first write must not change what the second reads
            copy = to.temporary(bits)
            to.emit("mov_64" if bits == 64 else "mov_32", copy, source)
            source = to.read(copy)
        for name, target in zip(operations, targets, strict=True):
            if not target.absent:
                to.emit(name, target, source)
        return
    if width not in (8, 16, 32) or bits not in (16, 32, 64):
        raise Unsupported(f"{bits} bits in {len(items)} parts")
    for index, target in enumerate(targets):
        if not target.absent:
            _field(to, target, source, bits, index * width, width)


def _field(to: Lowering, target: Operand, source: Operand, bits: int, offset: int, width: int) -> None:
    to.emit("field_64" if bits == 64 else "field_32", target, source, immediate=width << 8 | offset)


def _pack(to: Lowering, target: Operand, items: list[str], bits: int) -> None:
    width = bits // len(items)
    names = {(32, 16): "join_halves", (64, 32): "join_words", (128, 64): "join_doubles"}
    sources = [to.source(item, width) for item in items]
    if (bits, width) in names:
        to.emit(names[bits, width], target, *sources)
        return
    if width not in (8, 16) or bits not in (16, 32, 64):
        raise Unsupported(f"{bits} bits in {len(items)} parts")
    suffix = 64 if bits == 64 else 32
    value = to.number(0, bits)
    for index, source in enumerate(sources):
        last = index == len(sources) - 1
        result = target if last else to.temporary(bits)
        to.emit(f"with_field_{suffix}", result, value, source, immediate=width << 8 | index * width)
        value = to.read(result)


@lowers("cvta")
def convert_address(to: Lowering) -> None:
    """``cvta``: global, parameter and generic addresses are the same; shared and local ones have windows."""
    m = to.modifiers
    back = m.take("to")
    space = m.choose("global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "const")
    m.type("u64")
    to.expect(2)
    target, source = to.target(to.operands[0], 64), to.source(to.operands[1], 64)
    if space.startswith("shared") or space == "local":
        window = 1 << (61 if space == "local" else 60)
        to.emit("sub_u64" if back else "add_u64", target, source, to.number(window, 64))
    else:
        to.emit("mov_64", target, source)


@lowers("isspacep")
def is_space(to: Lowering) -> None:
    """``isspacep``: which window an address is in."""
    space = to.modifiers.choose(
        "global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "const"
    )
    to.expect(2)
    numbers = {"global": 0, "shared": 1, "shared::cta": 1, "shared::cluster": 2, "local": 3}
    if space not in numbers:
        raise Unsupported(f"isspacep.{space} is not emulated")
    to.emit("isspacep", to.target(to.operands[0], 1), to.source(to.operands[1], 64), immediate=numbers[space])


@lowers("mapa")
def map_address(to: Lowering) -> None:
    """``mapa``: the address of the same variable in another block of the cluster."""
    m = to.modifiers
    space = m.option("shared::cluster")
    bits = int(m.type("u32", "u64")[1:])
    to.expect(3)
    name = f"mapa_{'shared_' if space else ''}{bits}"
    to.emit(name, to.target(to.operands[0], bits), to.source(to.operands[1], bits), to.source(to.operands[2]))


@lowers("getctarank")
def rank_of_address(to: Lowering) -> None:
    """``getctarank``: which block of the cluster an address belongs to."""
    m = to.modifiers
    m.option("shared::cluster")
    bits = int(m.type("u32", "u64")[1:])
    to.expect(2)
    to.emit(f"getctarank_{bits}", to.target(to.operands[0], 32), to.source(to.operands[1], bits))
