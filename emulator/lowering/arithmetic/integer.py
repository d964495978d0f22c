"""Integer arithmetic, and opcodes that integers and floats share."""

from __future__ import annotations

from precast.emulator.lowering.arithmetic import carry, real
from precast.emulator.lowering.lowering import Lowering, Unsupported, lowers

INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")
WIDE = {"u16": ("u32", 32), "s16": ("s32", 32), "u32": ("u64", 64), "s32": ("s64", 64)}


def bits_of(kind: str) -> int:
    """The bits of an integer type.

    >>> bits_of("s64")
    64
    """
    return int(kind[1:])


def unsigned(kind: str) -> str:
    """The unsigned type of the same bits."""
    return f"u{kind[1:]}"


def elementwise(to: Lowering, name: str, bits: int, count: int) -> None:
    """A target and sources of the same bits."""
    to.expect(count + 1)
    sources = [to.source(text, bits) for text in to.operands[1:]]
    to.emit(name, to.target(to.operands[0], bits), *sources)


@lowers("add", "sub")
def add(to: Lowering) -> None:
    """``add`` and ``sub`` of all types; a carry is in ``addc``'s family."""
    m = to.modifiers
    if m.left[-1] in ("u16x2", "s16x2"):
        m.type("u16x2", "s16x2")
        elementwise(to, f"{to.opcode}_u16x2", 32, 2)
        return
    if m.left[-1] not in INTEGERS:
        real.arithmetic(to, to.opcode, 2)
        return
    kind = m.type(*INTEGERS)
    if m.take("cc"):
        to.expect(3)
        a, b = (to.source(text, bits_of(kind)) for text in to.operands[1:])
        carry.emit_sum(to, to.opcode, bits_of(kind), a, b, takes=False, gives=True)
        return
    if m.take("sat"):
        if kind != "s32":
            raise Unsupported(".sat is of .s32 only")
        elementwise(to, f"{to.opcode}_sat_s32", 32, 2)
        return
    elementwise(to, f"{to.opcode}_{unsigned(kind)}", bits_of(kind), 2)


@lowers("mul", "mad")
def multiply(to: Lowering) -> None:
    """``mul`` and ``mad`` of all types."""
    m = to.modifiers
    if m.left[-1] not in INTEGERS:
        real.arithmetic(to, "fma" if to.opcode == "mad" else "mul", 3 if to.opcode == "mad" else 2)
        return
    if to.opcode == "mad" and "cc" in m.left:
        carry.product(to, takes=False)
        return
    kind = m.type(*INTEGERS)
    part = m.choose("lo", "hi", "wide")
    count = 3 if to.opcode == "mad" else 2
    bits = bits_of(kind)
    if m.take("sat"):
        if (part, kind, to.opcode) != ("hi", "s32", "mad"):
            raise Unsupported(".sat is of mad.hi.s32 only")
        elementwise(to, "mad_hi_sat_s32", 32, 3)
    elif part == "wide":
        if kind not in WIDE:
            raise Unsupported(f"{to.opcode}.wide.{kind} does not exist")
        wide = WIDE[kind][1]
        to.expect(count + 1)
        sources = [to.source(text, bits) for text in to.operands[1:3]]
        sources += [to.source(text, wide) for text in to.operands[3:]]
        to.emit(f"{to.opcode}_wide_{kind}", to.target(to.operands[0], wide), *sources)
    else:
        elementwise(to, f"{to.opcode}_{part}_{unsigned(kind) if part == 'lo' else kind}", bits, count)


@lowers("mul24", "mad24")
def multiply_24(to: Lowering) -> None:
    """Products of 24 bits."""
    kind = to.modifiers.type("u32", "s32")
    part = to.modifiers.choose("lo", "hi")
    if to.modifiers.take("sat"):
        raise Unsupported("mad24.hi.sat is not emulated")
    elementwise(to, f"{to.opcode}_{part}_{kind}", 32, 2 if to.opcode == "mul24" else 3)


@lowers("div")
def divide(to: Lowering) -> None:
    """``div`` of all types."""
    if to.modifiers.left[-1] not in INTEGERS:
        real.divide(to)
        return
    kind = to.modifiers.type(*INTEGERS)
    elementwise(to, f"div_{kind}", bits_of(kind), 2)


@lowers("rem")
def remainder(to: Lowering) -> None:
    """``rem``."""
    kind = to.modifiers.type(*INTEGERS)
    elementwise(to, f"rem_{kind}", bits_of(kind), 2)


@lowers("sad")
def sum_of_differences(to: Lowering) -> None:
    """``sad``: the difference of two, added to a third."""
    kind = to.modifiers.type(*INTEGERS)
    elementwise(to, f"sad_{kind}", bits_of(kind), 3)


@lowers("min", "max")
def extreme(to: Lowering) -> None:
    """``min`` and ``max`` of all types; 16 bits twice are in the halves' family."""
    m = to.modifiers
    if m.left[-1] not in (*INTEGERS, "u16x2", "s16x2"):
        real.extreme(to)
        return
    kind = m.type(*INTEGERS, "u16x2", "s16x2")
    relu = "relu_" if m.take("relu") else ""
    if relu and kind not in ("s32", "s16x2"):
        raise Unsupported(f".relu is not of .{kind}")
    elementwise(to, f"{to.opcode}_{relu}{kind}", 32 if "x2" in kind else bits_of(kind), 2)


@lowers("neg", "abs")
def sign(to: Lowering) -> None:
    """``neg`` and ``abs`` of all types."""
    if to.modifiers.left[-1] not in INTEGERS:
        real.sign(to)
        return
    kind = to.modifiers.type("s16", "s32", "s64")
    elementwise(to, f"neg_{unsigned(kind)}" if to.opcode == "neg" else f"abs_{kind}", bits_of(kind), 1)
