"""Loads and stores."""

from __future__ import annotations

from precast.emulator.lowering.lowering import (
    ABSENT,
    Address,
    Lowering,
    Modifiers,
    Operand,
    Unsupported,
    lowers,
)

GENERIC, GLOBAL, SHARED, PARAMETER, LOCAL = range(5)
SPACES = {
    "global": GLOBAL,
    "shared": SHARED,
    "shared::cta": SHARED,
    "shared::cluster": SHARED,
    "local": LOCAL,
    "param": PARAMETER,
    "param::entry": PARAMETER,
    "param::func": PARAMETER,
    "const": GLOBAL,
}
STRONG = 1 << 8
READ_ONLY = 1 << 13
ORDERS = {"relaxed": 0, "acquire": 1, "release": 2, "acq_rel": 3}
SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "sys": 3}
TYPES = {f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)} | {"f32": 32, "f64": 64, "b128": 128}
_EVICTION = ("evict_first", "evict_last", "evict_unchanged", "evict_normal", "no_allocate")


def take_hints(m: Modifiers) -> bool:
    """Take what only makes an access faster; whether the last operand is a cache policy."""
    m.option("ca", "cg", "cs", "lu", "cv", "wb", "wt")
    for level in ("L1", "L2"):
        m.option(*(f"{level}::{name}" for name in _EVICTION))
    m.option("L2::64B", "L2::128B", "L2::256B")
    return m.take("L2::cache_hint")


def take_order(m: Modifiers) -> int:
    """The flags of an order and a scope, as interpreter/memory/access.h has them; 0 for a weak access."""
    if m.take("volatile"):
        return STRONG | SCOPES["sys"] << 11
    if m.take("mmio"):
        m.choose("relaxed")
        m.choose("sys")
        return STRONG | SCOPES["sys"] << 11
    order = m.option(*ORDERS)
    if not order:
        m.take("weak")
        return 0
    return STRONG | ORDERS[order] << 9 | SCOPES[m.choose(*SCOPES)] << 11


def take_space(m: Modifiers) -> int:
    """The state space; generic where none is there."""
    space = m.option(*SPACES)
    return SPACES[space] if space else GENERIC


@lowers("ld", "ldu")
def load(to: Lowering) -> None:
    """``ld``, of one to eight values."""
    m = to.modifiers
    kind = m.type(*TYPES)
    count = int((m.option("v2", "v4", "v8") or "v1")[1:])
    read_only = m.take("nc")
    flags = take_order(m) | (READ_ONLY if read_only else 0)
    space = take_space(m)
    if take_hints(m):
        to.operands.pop()
    m.take("unified")
    to.expect(2)
    if space == PARAMETER and to.is_local_parameter(to.operands[1]):
        space = LOCAL
    items = to.items(to.operands[0])
    if len(items) != count:
        raise Unsupported(f"{len(items)} registers for {count} values")
    address = to.address(to.operands[1])
    wide = any(to.bits(item) == 64 for item in items)
    bits = TYPES[kind]
    if bits == 128:
        _halves(to, "ld", items, address, space | flags)
        return
    if bits == 64 and not wide and any(item != "_" for item in items):
        raise Unsupported("a value of 64 bits in a shorter register")
    targets = [to.target(item) for item in items]
    signed = kind[0] == "s" and (bits < 32 or (wide and bits == 32))
    name = f"ld_{'s' if signed else ''}{bits}{'_wide' if wide and bits < 64 else ''}"
    if space != PARAMETER or not to.load_parameter(name, targets, address):
        to.emit(name, address, space | flags, to.pool(targets))
    for item, target in zip(items, targets, strict=True):
        if signed and to.bits(item) == 16:  # registers of 16 bits are zero above
            to.emit("low_half", target, to.read(target))


@lowers("st")
def store(to: Lowering) -> None:
    """``st``, of one to eight values."""
    m = to.modifiers
    kind = m.type(*TYPES)
    count = int((m.option("v2", "v4", "v8") or "v1")[1:])
    flags = take_order(m)
    space = take_space(m)
    if take_hints(m):
        to.operands.pop()
    to.expect(2)
    if space == PARAMETER:
        if not to.is_local_parameter(to.operands[0]):
            raise Unsupported("a store to a parameter of the kernel")
        space = LOCAL
    items = to.items(to.operands[1])
    if len(items) != count:
        raise Unsupported(f"{len(items)} values, not {count}")
    address = to.address(to.operands[0])
    bits = TYPES[kind]
    if bits == 128:
        _halves(to, "st", items, address, space | flags)
        return
    wide = bits == 64 or any(to.bits(item) == 64 for item in items)
    sources = [to.source(item, 64 if wide else bits) for item in items]
    to.emit(f"st_{bits}{'_wide' if wide and bits < 64 else ''}", address, space | flags, to.pool(sources))


@lowers("st.bulk")
def store_zeros(to: Lowering) -> None:
    """``st.bulk``: zeros in shared memory."""
    m = to.modifiers
    m.choose("bulk")
    m.take("weak")
    m.option("shared::cta")
    to.expect(3)
    if to.operands[2] != "0":
        raise Unsupported("st.bulk of another value than 0")
    wide = to.bits(to.operands[1]) == 64
    to.emit("st_bulk", to.address(to.operands[0]), to.source(to.operands[1], 64 if wide else 32), int(wide))


def _halves(to: Lowering, name: str, items: list[str], address: Address, flags: int) -> None:
    """Values of 128 bits are two of 64."""
    halves: list[Operand] = []
    if name == "st":
        for item in items:
            for part in ("low_double", "high_double"):
                half = to.temporary(64)
                to.emit(part, half, to.source(item, 128), guarded=False)
                halves.append(to.read(half))
        to.emit("st_64", address, flags, to.pool(halves))
        return
    halves = [ABSENT if item == "_" else to.temporary(64) for item in items for _ in range(2)]
    to.emit("ld_64", address, flags, to.pool(halves))
    for index, item in enumerate(items):
        if item != "_":
            low, high = halves[2 * index : 2 * index + 2]
            to.emit("join_doubles", to.target(item, 128), to.read(low), to.read(high))


@lowers("prefetch", "prefetchu", "applypriority", "discard", "createpolicy")
def hint(to: Lowering) -> None:
    """What only changes caches; a policy is a number that nothing reads."""
    m = to.modifiers
    if to.opcode == "discard":
        raise Unsupported("discard is not emulated")
    if to.opcode == "createpolicy":
        m.left.clear()
        to.emit("mov_64", to.target(to.operands[0], 64), to.number(0, 64))
        return
    m.option("global", "local", "param", "const")
    m.option("L1", "L2", "tensormap")
    m.option("L2::evict_last", "L2::evict_normal")
    to.emit("nothing")
