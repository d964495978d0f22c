"""Sums and differences with a carry. The carry flag is a predicate of the lowering."""

from __future__ import annotations

from precast.emulator.lowering.lowering import ABSENT, Lowering, Operand, Unsupported, lowers

_KINDS = ("u32", "s32", "u64", "s64", "b32", "b64")


def emit_sum(to: Lowering, name: str, bits: int, a: Operand, b: Operand, *, takes: bool, gives: bool) -> None:
    """``add`` or ``sub`` that takes the carry flag, or gives it."""
    carry_in = to.read(to.carry()) if takes else ABSENT
    carry_out = Operand(to.carry().register, writes=True) if gives else ABSENT
    if takes and gives:  # the flag is read and written: by way of a copy
        copy = to.temporary(1)
        to.emit("mov_pred", copy, carry_in, guarded=False)
        carry_in = to.read(copy)
    to.emit(f"{name}_carry_u{bits}", to.target(to.operands[0], bits), carry_out, a, b, carry_in)


@lowers("addc", "subc")
def sum_with_carry(to: Lowering) -> None:
    """``addc`` and ``subc``; with ``.cc`` they give a carry, too."""
    bits = int(to.modifiers.type(*_KINDS)[1:])
    gives = to.modifiers.take("cc")
    to.expect(3)
    a, b = (to.source(text, bits) for text in to.operands[1:])
    emit_sum(to, to.opcode.removesuffix("c"), bits, a, b, takes=True, gives=gives)


@lowers("madc")
def product_with_carry(to: Lowering) -> None:
    """``madc``."""
    product(to, takes=True)


def product(to: Lowering, *, takes: bool) -> None:
    """``mad.cc`` and ``madc``: half of a product, added with the carry."""
    m = to.modifiers
    kind = m.type("u32", "s32", "u64", "s64")
    part, gives = m.choose("lo", "hi"), m.take("cc")
    bits = int(kind[1:])
    if not (takes or gives):
        raise Unsupported("this needs no carry")
    to.expect(4)
    half = to.temporary(bits)
    sources = [to.source(text, bits) for text in to.operands[1:3]]
    to.emit(f"mul_{part}_{'u' + kind[1:] if part == 'lo' else kind}", half, *sources, guarded=False)
    emit_sum(to, "add", bits, to.read(half), to.source(to.operands[3], bits), takes=takes, gives=gives)
