"""What the lanes of a warp do together: shuffles, votes, matches, reductions, election."""

from __future__ import annotations

from precast.emulator.lowering.lowering import ABSENT, Lowering, Operand, Unsupported, lowers


def _two(to: Lowering, text: str) -> tuple[Operand, Operand]:
    """A register and a predicate, ``d|p``."""
    first, _, second = text.partition("|")
    return to.target(first.strip()), to.target(second.strip(), 1) if second else ABSENT


@lowers("shfl")
def shuffle(to: Lowering) -> None:
    """``shfl.sync``."""
    m = to.modifiers
    m.choose("sync")
    mode = m.choose("up", "down", "bfly", "idx")
    m.type("b32")
    to.expect(5)
    target, predicate = _two(to, to.operands[0])
    to.emit(f"shfl_{mode}", target, predicate, *(to.source(text) for text in to.operands[1:]))


@lowers("vote")
def vote(to: Lowering) -> None:
    """``vote.sync``."""
    m = to.modifiers
    m.choose("sync")
    mode = m.choose("all", "any", "uni", "ballot")
    m.type("b32" if mode == "ballot" else "pred")
    to.expect(3)
    target = to.target(to.operands[0], 32 if mode == "ballot" else 1)
    to.emit(f"vote_{mode}", target, to.predicate(to.operands[1]), to.source(to.operands[2]))


@lowers("match")
def match(to: Lowering) -> None:
    """``match.sync``."""
    m = to.modifiers
    mode = m.choose("any", "all")
    m.choose("sync")
    bits = int(m.type("b32", "b64")[1:])
    to.expect(3)
    target, predicate = _two(to, to.operands[0])
    to.emit(f"match_{mode}_{bits}", target, predicate, to.source(to.operands[1], bits), to.source(to.operands[2]))


@lowers("redux")
def reduce(to: Lowering) -> None:
    """``redux.sync``."""
    m = to.modifiers
    m.choose("sync")
    operation = m.choose("add", "min", "max", "and", "or", "xor")
    kind = m.type("u32", "s32", "b32", "f32")
    flags = (1 if m.take("abs") else 0) | (2 if m.take("NaN") else 0)
    to.expect(3)
    if (operation in ("and", "or", "xor")) != (kind == "b32") or (flags and kind != "f32"):
        raise Unsupported(f"redux.{operation}.{kind} does not exist")
    if kind == "f32" and operation == "add":
        raise Unsupported("redux.add.f32 does not exist")
    name = f"redux_{operation}_{kind}" if operation in ("min", "max") else f"redux_{operation}"
    to.emit(name, to.target(to.operands[0], 32), to.source(to.operands[1]), to.source(to.operands[2]), immediate=flags)


@lowers("elect")
def elect(to: Lowering) -> None:
    """``elect.sync``."""
    to.modifiers.choose("sync")
    to.expect(2)
    target, predicate = _two(to, to.operands[0])
    to.emit("elect", target, predicate, to.source(to.operands[1]))


@lowers("activemask")
def active_mask(to: Lowering) -> None:
    """``activemask``."""
    to.modifiers.type("b32")
    to.expect(1)
    to.emit("activemask", to.target(to.operands[0], 32))
