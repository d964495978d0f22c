"""``multimem``: stores, additions and sums in multicast memory."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering, Operand, Unsupported, lowers
from precast.emulator.lowering.memory import GLOBAL, ORDERS, SCOPES, STRONG, take_order

_WORDS = {f"{kind}{bits}": bits for kind in "bus" for bits in (32, 64)} | {
    "f32": 32,
    "f64": 64,
    "f16x2": 32,
    "bf16x2": 32,
}
_SUMS = {"u32": "u32", "s32": "u32", "u64": "u64", "f32": "f32", "f16x2": "f16x2", "bf16x2": "bf16x2"}
_ADDITIONS = {"u32": "u32", "s32": "u32", "u64": "u64", "f32": "f32"}


@lowers("multimem.st")
def store(to: Lowering) -> None:
    """``multimem.st``: the same values in the memory of each rank."""
    bits, count, flags = _begin(to, "st")
    to.expect(2)
    to.emit(f"multimem_st_{bits}", to.address(to.operands[0]), flags, to.pool(_values(to, to.operands[1], bits, count)))


@lowers("multimem.red")
def reduce(to: Lowering) -> None:
    """``multimem.red``: an addition in the memory of each rank."""
    kind = to.modifiers.left[-1]
    bits, count, flags = _begin(to, "red")
    to.modifiers.choose("add")
    if kind not in _ADDITIONS:
        raise Unsupported(f"multimem.red of .{kind} is not emulated")
    if not flags & STRONG:
        flags |= STRONG | ORDERS["relaxed"] << 9 | SCOPES["gpu"] << 11
    to.expect(2)
    values = to.pool(_values(to, to.operands[1], bits, count))
    to.emit(f"multimem_add_{_ADDITIONS[kind]}", to.address(to.operands[0]), flags, values)


@lowers("multimem.ld_reduce")
def load(to: Lowering) -> None:
    """``multimem.ld_reduce``: the sum of what the ranks have; of 16 bits in float32, which ``.acc::f32`` requests."""
    m = to.modifiers
    kind = m.left[-1]
    bits, count, flags = _begin(to, "ld_reduce")
    m.choose("add")
    accurate = m.take("acc::f32")
    if kind not in _SUMS or accurate != (kind in ("f16x2", "bf16x2")):
        raise Unsupported(f"multimem.ld_reduce of .{kind} with{'' if accurate else 'out'} .acc::f32 is not emulated")
    to.expect(2)
    targets = to.pool(to.target(item, bits) for item in _items(to, to.operands[0], count))
    to.emit(f"multimem_sum_{_SUMS[kind]}", to.address(to.operands[1]), flags, targets)


def _begin(to: Lowering, name: str) -> tuple[int, int, int]:
    """The bits of a value, how many there are, and the flags of the access."""
    m = to.modifiers
    m.choose(name)
    bits = _WORDS[m.type(*_WORDS)]
    count = int((m.option("v2", "v4", "v8") or "v1")[1:])
    flags = take_order(m)
    m.take("global")
    return bits, count, flags | GLOBAL


def _items(to: Lowering, text: str, count: int) -> list[str]:
    items = to.items(text)
    if len(items) != count:
        raise Unsupported(f"{len(items)} registers for {count} values")
    return items


def _values(to: Lowering, text: str, bits: int, count: int) -> list[Operand]:
    return [to.source(item, bits) for item in _items(to, text, count)]
