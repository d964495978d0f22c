"""Logic, shifts and fields of bits."""

from __future__ import annotations

from precast.emulator.lowering.arithmetic.integer import bits_of
from precast.emulator.lowering.lowering import Lowering, Unsupported, lowers
from precast.emulator.ptx.literals import literal_bits

_PERMUTATIONS = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


@lowers("and", "or", "xor", "not", "cnot")
def logic(to: Lowering) -> None:
    """Logic of bits, and of predicates."""
    kind = to.modifiers.type("pred", "b16", "b32", "b64")
    to.expect(2 if to.opcode in ("not", "cnot") else 3)
    if kind == "pred":
        if to.opcode == "cnot":
            raise Unsupported("cnot.pred does not exist")
        sources = [to.predicate(text) for text in to.operands[1:]]
        to.emit(f"{to.opcode}_pred", to.target(to.operands[0], 1), *sources)
        return
    bits = bits_of(kind)
    sources = [to.source(text, bits) for text in to.operands[1:]]
    to.emit(f"{to.opcode}_u{bits}", to.target(to.operands[0], bits), *sources)


@lowers("shl", "shr")
def shift(to: Lowering) -> None:
    """Shifts: a distance of the width or more leaves nothing, or the sign."""
    kind = to.modifiers.type(
        "b16", "b32", "b64", *(("u16", "u32", "u64", "s16", "s32", "s64") if to.opcode == "shr" else ())
    )
    bits = bits_of(kind)
    to.expect(3)
    name = f"shr_s{bits}" if kind[0] == "s" else f"{to.opcode}_u{bits}"
    to.emit(name, to.target(to.operands[0], bits), to.source(to.operands[1], bits), to.source(to.operands[2]))


@lowers("shf")
def funnel_shift(to: Lowering) -> None:
    """``shf``: a shift of two registers, of which one is taken."""
    m = to.modifiers
    m.type("b32")
    name = f"shf_{m.choose('l', 'r')}_{m.choose('wrap', 'clamp')}"
    to.expect(4)
    to.emit(name, to.target(to.operands[0]), *(to.source(text) for text in to.operands[1:]))


@lowers("lop3")
def any_logic(to: Lowering) -> None:
    """``lop3``: any function of three bits; with ``.and`` or ``.or`` also a predicate."""
    m = to.modifiers
    m.type("b32")
    join = m.option("and", "or")
    to.expect(6 if join else 5)
    table = literal_bits(to.operands[4], 8)
    if table is None:
        raise Unsupported("the table of lop3 is not a number")
    written, _, predicate = to.operands[0].partition("|")
    sources = [to.source(text) for text in to.operands[1:4]]
    result = to.temporary(32) if written.strip() == "_" else to.target(written.strip(), 32)
    to.emit("lop3", result, *sources, immediate=table)
    if join:
        set_name = "setp_ne_u32"
        to.emit(
            set_name,
            to.target(predicate.strip(), 1),
            -1,
            to.read(result),
            to.number(0),
            to.predicate(to.operands[5]),
            immediate=0 if join == "and" else 1,
        )


@lowers("bfe")
def extract(to: Lowering) -> None:
    """``bfe``: a field of bits, extended by its sign."""
    kind = to.modifiers.type("u32", "s32", "u64", "s64")
    bits = bits_of(kind)
    to.expect(4)
    sources = [to.source(to.operands[1], bits), *(to.source(text) for text in to.operands[2:])]
    to.emit(f"bfe_{kind}", to.target(to.operands[0], bits), *sources)


@lowers("bfi")
def insert(to: Lowering) -> None:
    """``bfi``: puts a field of bits into a register."""
    bits = bits_of(to.modifiers.type("b32", "b64"))
    to.expect(5)
    sources = [to.source(text, bits) for text in to.operands[1:3]] + [to.source(text) for text in to.operands[3:]]
    to.emit(f"bfi_u{bits}", to.target(to.operands[0], bits), *sources)


@lowers("bmsk")
def mask(to: Lowering) -> None:
    """``bmsk``: a mask of some bits."""
    to.modifiers.type("b32")
    mode = to.modifiers.choose("clamp", "wrap")
    to.expect(3)
    to.emit(f"bmsk_{mode}", to.target(to.operands[0]), *(to.source(text) for text in to.operands[1:]))


@lowers("szext")
def extend(to: Lowering) -> None:
    """``szext``: extends the sign, or zeros, from a number of bits on."""
    kind = to.modifiers.type("u32", "s32")
    mode = to.modifiers.choose("clamp", "wrap")
    to.expect(3)
    to.emit(f"szext_{mode}_{kind}", to.target(to.operands[0]), *(to.source(text) for text in to.operands[1:]))


@lowers("popc", "clz", "brev")
def count(to: Lowering) -> None:
    """Counts of bits, and their reverse."""
    bits = bits_of(to.modifiers.type("b32", "b64"))
    to.expect(2)
    target = to.target(to.operands[0], bits if to.opcode == "brev" else 32)
    to.emit(f"{to.opcode}_u{bits}", target, to.source(to.operands[1], bits))


@lowers("bfind")
def find(to: Lowering) -> None:
    """``bfind``: the highest bit that is not a copy of the sign."""
    kind = to.modifiers.type("u32", "s32", "u64", "s64")
    shift_amount = "shift_" if to.modifiers.take("shiftamt") else ""
    to.expect(2)
    to.emit(f"bfind_{shift_amount}{kind}", to.target(to.operands[0], 32), to.source(to.operands[1], bits_of(kind)))


@lowers("fns")
def find_nth(to: Lowering) -> None:
    """``fns``: the n-th set bit."""
    to.modifiers.type("b32")
    to.expect(4)
    to.emit("fns", to.target(to.operands[0]), *(to.source(text) for text in to.operands[1:]))


@lowers("prmt")
def permute(to: Lowering) -> None:
    """``prmt``: bytes of two registers."""
    m = to.modifiers
    mode = m.option(*_PERMUTATIONS)
    m.type("b32")
    to.expect(4)
    sources = [to.source(text) for text in to.operands[1:]]
    if mode:
        to.emit("prmt_mode", to.target(to.operands[0]), *sources, immediate=_PERMUTATIONS.index(mode))
    else:
        to.emit("prmt", to.target(to.operands[0]), *sources)


@lowers("dp4a", "dp2a")
def dot(to: Lowering) -> None:
    """Dot products of bytes."""
    m = to.modifiers
    part = f"{m.choose('lo', 'hi')}_" if to.opcode == "dp2a" else ""
    second, first = m.type("u32", "s32"), m.type("u32", "s32")
    to.expect(4)
    to.emit(
        f"{to.opcode}_{part}{first[0]}{second[0]}",
        to.target(to.operands[0]),
        *(to.source(text) for text in to.operands[1:]),
    )
