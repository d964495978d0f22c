"""Arithmetic of floats: what the shared opcodes of integer.py pass on, and those that only floats have."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering, Modifiers, Operand, Unsupported, lowers

HALVES = ("f16", "bf16", "f16x2", "bf16x2")
FLOATS = ("f32", "f64", "f32x2", *HALVES)
ROUNDINGS = {"rn": 0, "rz": 1, "rm": 2, "rp": 3}
FTZ, SAT = 4, 8


def take_mode(m: Modifiers) -> int:
    """The bits of a rounding, ``.ftz`` and ``.sat``, as interpreter/scalar/rounding.h has them."""
    mode = ROUNDINGS[m.option(*ROUNDINGS) or "rn"]
    return mode | (FTZ if m.take("ftz") else 0) | (SAT if m.take("sat") else 0)


def bits_of(kind: str) -> int:
    """The bits of a register of a float type.

    >>> bits_of("f32x2"), bits_of("bf16"), bits_of("f16x2")
    (64, 16, 32)
    """
    if kind in ("f64", "f32x2"):
        return 64
    return 16 if kind in ("f16", "bf16") else 32


def arithmetic(to: Lowering, name: str, count: int) -> None:
    """``add``, ``sub``, ``mul`` and ``fma``."""
    m = to.modifiers
    kind = m.type(*FLOATS)
    if kind in ("f16", "bf16") and m.left[-1:] == ["f32"]:
        m.left.pop()
        _mixed(to, name, count, kind)
        return
    mode = take_mode(m)
    if kind in HALVES:
        _half(to, name, count, kind, mode)
        return
    bits = bits_of(kind)
    to.expect(count + 1)
    sources = [to.source(text, bits) for text in to.operands[1:]]
    operation = f"{name}_{kind}"
    if kind == "f32x2":
        if mode & SAT:
            raise Unsupported(".sat is not of .f32x2")
    elif mode:
        operation = f"{name}_mode_{kind}"
    to.emit(operation, to.target(to.operands[0], bits), *sources, immediate=mode)


def _half(to: Lowering, name: str, count: int, kind: str, mode: int) -> None:
    """Operations on 16 bits round to nearest; ``.relu`` of fma; ``.sat`` and ``.ftz`` of float16."""
    relu = 16 if to.modifiers.take("relu") else 0
    oob = to.modifiers.take("oob")
    if oob or mode & 3 or (relu and name != "fma"):
        raise Unsupported(f"{to.statement.opcode} is not emulated")
    bits = bits_of(kind)
    to.expect(count + 1)
    sources = [to.source(text, bits) for text in to.operands[1:]]
    to.emit(f"{name}_{kind}", to.target(to.operands[0], bits), *sources, immediate=mode | relu)


def _mixed(to: Lowering, name: str, count: int, kind: str) -> None:
    """Sums and products in float32 of 16-bit factors: ``fma.rn.f32.bf16`` and the like."""
    mode = take_mode(to.modifiers)
    to.expect(count + 1)
    shorts = {"add": (1,), "sub": (1,), "fma": (1, 2)}.get(name)
    if shorts is None:
        raise Unsupported(f"{to.statement.opcode} is not emulated")
    sources = []
    for index, text in enumerate(to.operands[1:], 1):
        if index in shorts:
            value = to.temporary(32)
            to.emit(f"cvt_f32_{kind}", value, to.source(text, 16), guarded=False)
            sources.append(to.read(value))
        else:
            sources.append(to.source(text, 32))
    to.emit(f"{name}_mode_f32" if mode else f"{name}_f32", to.target(to.operands[0], 32), *sources, immediate=mode)


@lowers("fma")
def fused(to: Lowering) -> None:
    """``fma`` of all types."""
    arithmetic(to, "fma", 3)


def divide(to: Lowering) -> None:
    """``div`` of floats."""
    m = to.modifiers
    kind = m.type("f32", "f64")
    approximate = m.option("approx", "full")
    if approximate:
        _approximate(to, f"div_{approximate}", kind, 2)
        return
    _rounded(to, "div", kind, 2)


@lowers("rcp", "sqrt")
def reciprocal(to: Lowering) -> None:
    """``rcp`` and ``sqrt``."""
    kind = to.modifiers.type("f32", "f64")
    if to.modifiers.take("approx"):
        _approximate(to, f"{to.opcode}_approx", kind, 1)
    else:
        _rounded(to, to.opcode, kind, 1)


@lowers("rsqrt", "sin", "cos", "lg2", "ex2", "tanh")
def function(to: Lowering) -> None:
    """Functions that are approximate on GPUs."""
    kind = to.modifiers.type("f32", "f64", *HALVES)
    if not to.modifiers.take("approx"):
        raise Unsupported(f"{to.opcode} without .approx")
    _approximate(to, f"{to.opcode}_approx", kind, 1)


def _rounded(to: Lowering, name: str, kind: str, count: int) -> None:
    if not any(word in to.modifiers.left for word in ROUNDINGS):
        raise Unsupported(f"{to.opcode} without a rounding")
    mode = take_mode(to.modifiers)
    if mode & SAT:
        raise Unsupported(f"{to.opcode}.sat is not emulated")
    bits = bits_of(kind)
    to.expect(count + 1)
    sources = [to.source(text, bits) for text in to.operands[1:]]
    to.emit(f"{name}_mode_{kind}", to.target(to.operands[0], bits), *sources, immediate=mode)


def _approximate(to: Lowering, name: str, kind: str, count: int) -> None:
    mode = take_mode(to.modifiers)
    if mode & ~FTZ:
        raise Unsupported(f"{to.opcode} has modifiers that are not emulated")
    bits = bits_of(kind)
    to.expect(count + 1)
    sources = [to.source(text, bits) for text in to.operands[1:]]
    ftz = "ftz_" if mode & FTZ else ""
    to.emit(f"{name}_{ftz}{kind}", to.target(to.operands[0], bits), *sources)


def extreme(to: Lowering) -> None:
    """``min`` and ``max`` of floats, of two or three."""
    m = to.modifiers
    kind = m.type("f32", "f64", *HALVES)
    ftz, nan, xorsign = m.take("ftz"), m.take("NaN"), m.take("xorsign")
    if xorsign:
        m.choose("abs")
    absolute = not xorsign and m.take("abs")
    nan_name = "_nan" if nan else ""
    bits = bits_of(kind)
    to.expect(3, 4)
    sources = [to.source(text, bits) for text in to.operands[1:]]
    if kind in HALVES:
        if len(sources) != 2 or absolute:
            raise Unsupported(f"{to.statement.opcode} is not emulated")
        mode = (FTZ if ftz else 0) | (32 if nan else 0) | (64 if xorsign else 0)
        to.emit(f"{to.opcode}_{kind}", to.target(to.operands[0], bits), *sources, immediate=mode)
        return
    if absolute:
        sources = [_magnitude(to, source) for source in sources]
    name = f"{to.opcode}{nan_name}_{'ftz_' if ftz else ''}{'xorsign_' if xorsign else ''}{kind}"
    value = sources[0]
    for index, source in enumerate(sources[1:], 2):
        last = index == len(sources)
        result = to.target(to.operands[0], bits) if last else to.temporary(bits)
        to.emit(name, result, value, source)
        value = to.read(result)


def _magnitude(to: Lowering, source: Operand) -> Operand:
    result = to.temporary(32)
    to.emit("abs_f32", result, source, guarded=False)
    return to.read(result)


def sign(to: Lowering) -> None:
    """``neg`` and ``abs`` of floats."""
    m = to.modifiers
    kind = m.type("f32", "f64", "f32x2", *HALVES)
    ftz = m.take("ftz")
    bits = bits_of(kind)
    to.expect(2)
    source, target = to.source(to.operands[1], bits), to.target(to.operands[0], bits)
    if kind in HALVES:
        to.emit(f"{to.opcode}_{kind}", target, source, immediate=FTZ if ftz else 0)
    else:
        to.emit(f"{to.opcode}_{'ftz_' if ftz else ''}{kind}", target, source)


@lowers("copysign")
def copy_sign(to: Lowering) -> None:
    """``copysign``: the sign of the first, the rest of the second."""
    kind = to.modifiers.type("f32", "f64")
    bits = bits_of(kind)
    to.expect(3)
    to.emit(f"copysign_{kind}", to.target(to.operands[0], bits), *(to.source(text, bits) for text in to.operands[1:]))


@lowers("testp")
def test_property(to: Lowering) -> None:
    """``testp``: which class of floats."""
    kind = to.modifiers.type("f32", "f64")
    classes = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    which = classes.index(to.modifiers.choose(*classes))
    to.expect(2)
    to.emit(f"testp_{kind}", to.target(to.operands[0], 1), to.source(to.operands[1], bits_of(kind)), immediate=which)
