"""``atom`` and ``red``."""

from __future__ import annotations

from precast.emulator.lowering.lowering import ABSENT, Lowering, Operand, Unsupported, lowers
from precast.emulator.lowering.memory import ORDERS, SCOPES, STRONG, take_hints, take_space

_OPERATIONS = ("add", "and", "or", "xor", "cas", "exch", "inc", "dec", "min", "max")
_TYPES = {f"{kind}{bits}": bits for kind in "bus" for bits in (16, 32, 64)} | {
    "b128": 128,
    "f32": 32,
    "f64": 64,
    "f16": 16,
    "bf16": 16,
    "f16x2": 32,
    "bf16x2": 32,
}
_SHORTS = ("f16", "bf16", "f16x2", "bf16x2")


@lowers("atom")
def atomic(to: Lowering) -> None:
    """``atom``: the target gets what was there before."""
    to.expect(3, 4, 5)
    _lower(to, to.operands[0], to.operands[1], to.operands[2:])


@lowers("red")
def reduce(to: Lowering) -> None:
    """``red``: nothing gets what was there before."""
    to.expect(2, 3)
    _lower(to, "", to.operands[0], to.operands[1:])


def _lower(to: Lowering, target: str, where: str, sources: list[str]) -> None:
    m = to.modifiers
    kind = m.type(*_TYPES)
    operation = m.choose(*_OPERATIONS)
    order = ORDERS[m.option(*ORDERS) or "relaxed"]
    scope = SCOPES[m.option(*SCOPES) or "gpu"]
    flags = take_space(m) | STRONG | order << 9 | scope << 11
    count = int((m.option("v2", "v4", "v8") or "v1")[1:])
    m.take("noftz")
    if take_hints(m):
        sources = sources[:-1]
    if len(sources) != (2 if operation == "cas" else 1):
        raise Unsupported(f"{operation} with {len(sources)} sources")
    if count > 1 and (kind not in (*_SHORTS, "f32") or operation not in ("add", "min", "max")):
        raise Unsupported(f"a vector of .{kind} is not emulated")
    address = to.address(where)
    if kind == "b128":
        _wide(to, operation, target, sources, flags)
        return
    name = _name(operation, kind)
    bits = _TYPES[kind]
    values = [to.source(item, bits) for source in sources for item in to.items(source)]
    targets = [to.target(item, bits) for item in to.items(target)] if target else []
    if (operation != "cas" and len(values) != count) or (targets and len(targets) != count):
        raise Unsupported(f"{len(values)} values, not {count}")
    to.emit(name, address, flags, to.pool(targets), to.pool(values))


def _name(operation: str, kind: str) -> str:
    bits = _TYPES[kind]
    if operation in ("and", "or", "xor", "exch", "cas"):
        if kind[0] not in "b" and operation != "exch":
            raise Unsupported(f"{operation} of .{kind} does not exist")
        return f"atom_{operation}_{bits}"
    if operation == "add" and kind[0] in "us":
        return f"atom_add_u{bits}"
    if operation in ("inc", "dec") and kind != "u32":
        raise Unsupported(f"{operation} of .{kind} does not exist")
    return f"atom_{operation}_{kind}"


def _wide(to: Lowering, operation: str, target: str, sources: list[str], flags: int) -> None:
    """Values of 128 bits, in pairs of registers."""
    if operation not in ("exch", "cas"):
        raise Unsupported(f"{operation} of .b128 does not exist")
    address = to.address(to.operands[1] if target else to.operands[0])
    halves: list[Operand] = []
    for source in sources:
        for part in ("low_double", "high_double"):
            half = to.temporary(64)
            to.emit(part, half, to.source(source, 128), guarded=False)
            halves.append(to.read(half))
    results = [to.temporary(64), to.temporary(64)] if target else [ABSENT, ABSENT]
    to.emit(f"atom_{operation}_128", address, flags, to.pool(results if target else []), to.pool(halves))
    if target and target != "_":
        to.emit("join_doubles", to.target(target, 128), *(to.read(result) for result in results))
