"""``cvt``."""

from __future__ import annotations

from precast.emulator.lowering.arithmetic.real import FTZ, ROUNDINGS, SAT
from precast.emulator.lowering.lowering import ABSENT, Lowering, Operand, Unsupported, lowers

_INTEGERS = {f"{kind}{bits}": bits for kind in "us" for bits in (8, 16, 32, 64)}
_FLOATS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
_WHOLE = {"rni": 0, "rzi": 1, "rmi": 2, "rpi": 3}
_FORMATS = ("bf16", "f16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "ue8m0")
_CODE_ROUNDINGS = {"rn": 0, "rz": 1, "rm": 2, "rp": 3, "rna": 4, "rs": 5}
_PACKED = tuple(f"{name}x{count}" for name in _FORMATS if name != "tf32" for count in (2, 4))


@lowers("cvt")
def convert(to: Lowering) -> None:
    """All conversions: the first type is the target's."""
    m = to.modifiers
    if m.take("pack"):
        _pack_saturated(to)
        return
    kinds = (*_INTEGERS, *_FLOATS, "tf32", *_PACKED)
    source = m.type(*kinds)
    target = m.type(*kinds)
    if target in _INTEGERS and source in _INTEGERS:
        _integers(to, target, source)
    elif target in _INTEGERS and source in _FLOATS:
        _to_integer(to, target, source)
    elif target in _FLOATS and source in _INTEGERS:
        _from_integer(to, target, source)
    elif target in _FLOATS and source in _FLOATS:
        _floats(to, target, source)
    elif target == "tf32" and source == "f32":
        to.expect(2)
        to.emit("short_f32", to.target(to.operands[0], 32), to.source(to.operands[1], 32), immediate=_how(to, "tf32"))
    elif target in _PACKED:
        _packed(to, target, source)
    else:
        raise Unsupported(f"cvt.{target}.{source} is not emulated")


def _pack_saturated(to: Lowering) -> None:
    """``cvt.pack.sat``: two integers, saturated, in one register, below what a third operand has."""
    m = to.modifiers
    further = m.take("b32")
    source = m.type("s32", "u32")
    target = m.type("u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2")
    m.choose("sat")
    width = int(target[1:])
    if further != (width < 16):
        raise Unsupported(f"cvt.pack of .{target} with these operands does not exist")
    to.expect(4 if further else 3)
    rest = to.source(to.operands[3]) if further else ABSENT
    flags = width | (1 << 8 if target[0] == "s" else 0) | (1 << 9 if source[0] == "s" else 0)
    a, b = (to.source(text) for text in to.operands[1:3])
    to.emit("pack_saturated", to.target(to.operands[0], 32), a, b, rest, immediate=flags)


def _integers(to: Lowering, target: str, source: str) -> None:
    to.expect(2)
    sat = "sat_" if to.modifiers.take("sat") else ""
    value = _narrow(to, to.operands[1], _INTEGERS[source])
    written = to.operands[0]
    size = 64 if _INTEGERS[target] == 64 else 32
    own = to.bits(written)
    if (own > _INTEGERS[target] and target[0] == "s") or own == 64 != size:  # the sign fills the register
        part = to.temporary(size)
        to.emit(f"cvt_{sat}{target}_{source}", part, value)
        to.emit(f"cvt_{target[0]}{own}_{target}", to.target(written), to.read(part))
        return
    to.emit(f"cvt_{sat}{target}_{source}", to.target(written, size), value)


def _narrow(to: Lowering, text: str, bits: int) -> Operand:
    """A source, which may be in a wider register than its type needs."""
    if to.bits(text) == 64 and bits < 64:
        low = to.temporary(32)
        to.emit("low_word", low, to.source(text, 64), guarded=False)
        return to.read(low)
    return to.source(text, bits)


def _to_integer(to: Lowering, target: str, source: str) -> None:
    m = to.modifiers
    mode = m.option(*_WHOLE)
    if not mode:
        raise Unsupported("a conversion to an integer without a rounding")
    ftz = "ftz_" if m.take("ftz") and source == "f32" else ""
    m.take("sat")  # it always saturates
    to.expect(2)
    name = f"cvt_{target}_{ftz}{source}"
    value = to.source(to.operands[1], _FLOATS[source])
    own, bits = to.bits(to.operands[0]), _INTEGERS[target]
    if own > bits and target[0] == "s":
        part = to.temporary(32)
        to.emit(name, part, value, immediate=_WHOLE[mode])
        to.emit(f"cvt_s{own}_{target}", to.target(to.operands[0]), to.read(part))
        return
    to.emit(name, to.target(to.operands[0], bits), value, immediate=_WHOLE[mode])


def _from_integer(to: Lowering, target: str, source: str) -> None:
    m = to.modifiers
    mode = m.option(*ROUNDINGS)
    if not mode:
        raise Unsupported("a conversion from an integer without a rounding")
    sat = m.take("sat")
    m.take("ftz")  # no integer is subnormal
    to.expect(2)
    value = _narrow(to, to.operands[1], _INTEGERS[source])
    bits = _FLOATS[target]
    result = to.target(to.operands[0], bits)
    if not sat:
        to.emit(f"cvt_{target}_{source}", result, value, immediate=ROUNDINGS[mode])
        return
    if target != "f32":
        raise Unsupported(f".sat of .{target} from an integer is not emulated")
    part = to.temporary(32)
    to.emit("cvt_f32_" + source, part, value, immediate=ROUNDINGS[mode])
    to.emit("saturate_f32", result, to.read(part))


def _floats(to: Lowering, target: str, source: str) -> None:
    m = to.modifiers
    to.expect(2)
    value = to.source(to.operands[1], _FLOATS[source])
    result = to.target(to.operands[0], _FLOATS[target])
    whole = m.option(*_WHOLE)
    if whole or target == source:
        if target != source:
            raise Unsupported(f"cvt.{whole}.{target}.{source} does not exist")
        _whole(to, target, _WHOLE[whole] if whole else None, value, result)
        return
    if target in ("f16", "bf16"):
        plain = m.left == ["rn"]
        how = _how(to, target)
        if plain and source == "f32":
            to.emit(f"cvt_{target}_f32", result, value)
        else:
            to.emit(f"short_{source}", result, value, immediate=how)
        return
    mode = ROUNDINGS[m.option(*ROUNDINGS) or "rn"] | (FTZ if m.take("ftz") else 0)
    sat = m.take("sat")
    if source in ("f16", "bf16"):
        if sat and target == "f32":
            part = to.temporary(32)
            to.emit(f"cvt_f32_{source}", part, value)
            to.emit("saturate_f32", result, to.read(part))
            return
        if sat:
            raise Unsupported(f".sat of .{target} is not emulated")
        to.emit(f"cvt_{target}_{source}", result, value)  # exact: float32 has their subnormals as normal numbers
        return
    if sat and target == "f64":
        raise Unsupported(".sat of .f64 is not emulated")
    to.emit(f"cvt_{target}_{source}", result, value, immediate=mode | (SAT if sat else 0))


def _whole(to: Lowering, kind: str, mode: int | None, value: Operand, result: Operand) -> None:
    m = to.modifiers
    flags = (FTZ if m.take("ftz") else 0) | (SAT if m.take("sat") else 0)
    if mode is not None:
        if kind in ("f16", "bf16") and flags:
            raise Unsupported(f"modifiers of cvt.{kind}.{kind} are not emulated")
        to.emit(f"round_{kind}", result, value, immediate=mode | flags)
    elif kind == "f32" and flags:
        to.emit("add_mode_f32", result, value, to.number(0x80000000), immediate=flags)
    elif flags:
        raise Unsupported(f"modifiers of cvt.{kind}.{kind} are not emulated")
    else:
        to.emit("mov_64" if kind == "f64" else "mov_32", result, value)


def _how(to: Lowering, name: str) -> int:
    """How codes of a format are made, as interpreter/scalar/short_formats.cpp has it."""
    m = to.modifiers
    rounding = m.option(*_CODE_ROUNDINGS)
    if not rounding:
        raise Unsupported("a conversion to a shorter float without a rounding")
    flags = [m.take(word) for word in ("satfinite", "relu", "ftz", "sat")]
    return (
        _FORMATS.index(name)
        | _CODE_ROUNDINGS[rounding] << 8
        | sum(1 << (12 + index) for index, flag in enumerate(flags) if flag)
    )


def _packed(to: Lowering, target: str, source: str) -> None:
    name, count = target.split("x")
    if source in _PACKED and source not in ("f16x2", "bf16x2"):
        _unpacked(to, name, count, source)
        return
    m = to.modifiers
    plain = m.left == ["rn"]
    bits = 8 if name == "e2m1" else 32 if count == "4" or name in ("f16", "bf16") else 16
    how = _how(to, name)
    if count == "4":
        _four(to, how, name)
        return
    result = to.target(to.operands[0]) if bits == 8 else to.target(to.operands[0], bits)
    if source in ("f16x2", "bf16x2"):
        to.expect(2)
        to.emit(f"short_x2_{source}", result, to.source(to.operands[1], 32), immediate=how)
    elif source == "f32" and len(to.operands) == 3:
        values = [to.source(text, 32) for text in to.operands[1:]]
        if plain and name in ("f16", "bf16"):
            to.emit(f"cvt_{target}_f32", result, *values)
        else:
            to.emit("short_x2_f32", result, *values, immediate=how)
    else:
        raise Unsupported(f"cvt.{target}.{source} is not emulated")


def _four(to: Lowering, how: int, name: str) -> None:
    """Four codes with stochastic rounding."""
    to.expect(3)
    items = to.items(to.operands[1])
    if len(items) != 4 or how >> 8 & 0xF != _CODE_ROUNDINGS["rs"]:
        raise Unsupported("four codes need .rs and four values")
    bits = 16 if name == "e2m1" else 32
    values = [to.source(item, 32) for item in items]
    to.emit("short_x4_f32", to.target(to.operands[0], bits), *values, to.source(to.operands[2], 32), immediate=how)


def _unpacked(to: Lowering, name: str, count: str, source: str) -> None:
    """Two short codes as two float16 or bfloat16."""
    short, source_count = source.split("x")
    m = to.modifiers
    if (count, source_count) != ("2", "2") or name not in ("f16", "bf16") or not m.take("rn"):
        raise Unsupported(f"cvt.{name}x{count}.{source} is not emulated")
    relu = m.take("relu")
    to.expect(2)
    value = to.source(to.operands[1], 16)
    immediate = _FORMATS.index(short) | (1 << 8 if name == "bf16" else 0) | (1 << 9 if relu else 0)
    to.emit("wide_x2", to.target(to.operands[0], 32), value, immediate=immediate)
