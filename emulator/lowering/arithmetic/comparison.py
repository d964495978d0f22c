"""``setp``, ``set``, ``selp`` and ``slct``."""

from __future__ import annotations

from precast.emulator.lowering.lowering import ABSENT, Lowering, Operand, Unsupported, lowers

_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
_UNORDERED = ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_BITS = {f"{kind}{bits}": bits for kind in "bus" for bits in (16, 32, 64)}
_FLOATS = {"f32": 32, "f64": 64, "f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32}
_JOINS = ("and", "or", "xor")


@lowers("setp")
def set_predicate(to: Lowering) -> None:
    """``setp``: a predicate and its complement, joined with another one if there is one."""
    kind = to.modifiers.type(*_BITS, *_FLOATS)
    name, join = _relation(to, kind)
    to.expect(4 if join else 3)
    first, _, second = to.operands[0].partition("|")
    targets = (to.target(first.strip(), 1), to.target(second.strip(), 1) if second else ABSENT)
    if kind in ("f16x2", "bf16x2"):
        _both_halves(to, name, kind, targets, join)
        return
    _compare(to, name, kind, targets, join)


@lowers("set")
def set_value(to: Lowering) -> None:
    """``set``: ones or 1.0 where a comparison holds."""
    m = to.modifiers
    kind = m.type(*_BITS, *_FLOATS)
    result = m.type("u32", "s32", "f32", "u16", "s16", "f16", "bf16", "f16x2", "bf16x2")
    name, join = _relation(to, kind)
    to.expect(4 if join else 3)
    if "x2" in kind or "x2" in result:
        raise Unsupported("set of two halves is not emulated")
    predicate = to.temporary(1)
    _compare(to, name, kind, (predicate, ABSENT), join)
    value = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "u16": 0xFFFF, "s16": 0xFFFF}.get(result, 0xFFFFFFFF)
    to.emit("value_of_pred", to.target(to.operands[0], 32), to.read(predicate), immediate=value)


def _relation(to: Lowering, kind: str) -> tuple[str, str]:
    """The operation's name without the type, and how it joins."""
    m = to.modifiers
    relation = m.next()
    join = m.option(*_JOINS)
    ftz = m.take("ftz")
    if kind in _FLOATS:
        if relation not in (*_RELATIONS, *_UNORDERED):
            raise Unsupported(f"the comparison .{relation} is not of floats")
    elif relation in _UNSIGNED:
        relation = _UNSIGNED[relation]
    elif relation not in _RELATIONS:
        raise Unsupported(f"the comparison .{relation} is not of integers")
    if ftz and kind != "f32":
        raise Unsupported(f".ftz of .{kind} is not emulated")
    return f"setp_{relation}_{'ftz_' if ftz else ''}", join


def _compare(to: Lowering, name: str, kind: str, targets: tuple[Operand, Operand], join: str) -> None:
    bits = _BITS.get(kind) or _FLOATS[kind]
    further = to.predicate(to.operands[3]) if join else ABSENT
    type_name = kind if kind in _FLOATS else f"{'s' if kind[0] == 's' else 'u'}{bits}"
    a, b = (to.source(text, bits) for text in to.operands[1:3])
    to.emit(f"{name}{type_name}", *targets, a, b, further, immediate=_JOINS.index(join) if join else 0)


def _both_halves(to: Lowering, name: str, kind: str, targets: tuple[Operand, Operand], join: str) -> None:
    """``setp.f16x2``: a predicate for each half."""
    further = to.predicate(to.operands[3]) if join else ABSENT
    wholes = [to.source(text) for text in to.operands[1:3]]
    for half, target in zip(("low_half", "high_half"), targets, strict=True):
        parts = []
        for whole in wholes:
            part = to.temporary(16)
            to.emit(half, part, whole, guarded=False)
            parts.append(to.read(part))
        immediate = _JOINS.index(join) if join else 0
        to.emit(f"{name}{kind.removesuffix('x2')}", target, ABSENT, *parts, further, immediate=immediate)


@lowers("selp")
def select(to: Lowering) -> None:
    """``selp``: one of two, by a predicate."""
    bits = {**_BITS, **_FLOATS}[to.modifiers.type(*_BITS, *_FLOATS)]
    to.expect(4)
    sources = [to.source(text, bits) for text in to.operands[1:3]]
    to.emit(f"selp_{64 if bits == 64 else 32}", to.target(to.operands[0], bits), *sources, to.predicate(to.operands[3]))


@lowers("slct")
def select_by_sign(to: Lowering) -> None:
    """``slct``: one of two, by a sign."""
    m = to.modifiers
    by = m.type("s32", "f32")
    bits = {**_BITS, "f32": 32, "f64": 64}[m.type(*_BITS, "f32", "f64")]
    ftz = "ftz_" if m.take("ftz") else ""
    to.expect(4)
    sources = [to.source(text, bits) for text in to.operands[1:3]]
    name = f"slct_{64 if bits == 64 else 32}_{ftz}{by}"
    to.emit(name, to.target(to.operands[0], bits), *sources, to.source(to.operands[3]))
