"""``st.async`` and ``red.async``: stores to the shared memory of the cluster that complete bytes of an mbarrier."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering, Unsupported, lowers

# In the order of sync/async_stores.cpp.
_STORE, _ADD, _MIN, _MAX, _MIN_SIGNED, _MAX_SIGNED, _AND, _OR, _XOR, _INCREMENT, _DECREMENT = range(11)
_REDUCTIONS = {
    ("inc", "u32"): _INCREMENT,
    ("dec", "u32"): _DECREMENT,
    ("min", "u32"): _MIN,
    ("max", "u32"): _MAX,
    ("min", "s32"): _MIN_SIGNED,
    ("max", "s32"): _MAX_SIGNED,
    ("add", "u32"): _ADD,
    ("add", "s32"): _ADD,
    ("add", "u64"): _ADD,
    ("and", "b32"): _AND,
    ("or", "b32"): _OR,
    ("xor", "b32"): _XOR,
}


@lowers("st.async")
def store(to: Lowering) -> None:
    """Lower ``st.async`` of one, two or four values."""
    to.modifiers.take("async")
    to.modifiers.take("weak")
    _spaces(to)
    count = {"": 1, "v2": 2, "v4": 4}[to.modifiers.option("v2", "v4")]
    kind = to.modifiers.type("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
    _emit(to, count, kind, _STORE)


@lowers("red.async")
def reduce(to: Lowering) -> None:
    """Lower ``red.async``."""
    to.modifiers.take("async")
    to.modifiers.choose("relaxed")
    to.modifiers.choose("cluster")
    _spaces(to)
    kind = to.modifiers.type("b32", "u32", "s32", "u64")
    what = to.modifiers.next()
    if (what, kind) not in _REDUCTIONS:
        raise Unsupported(f"red.async.{what}.{kind} is not emulated")
    _emit(to, 1, kind, _REDUCTIONS[what, kind])


def _spaces(to: Lowering) -> None:
    to.modifiers.option("shared::cluster")
    to.modifiers.choose("mbarrier::complete_tx::bytes")


def _emit(to: Lowering, count: int, kind: str, how: int) -> None:
    to.expect(3)
    bits = int(kind[1:])
    values = to.items(to.operands[1])
    if len(values) != count:
        raise Unsupported(f"it has {len(values)} values, not {count}")
    pool = to.pool(to.source(value, bits) for value in values)
    to.emit("STORE_ASYNC", to.address(to.operands[0]), to.address(to.operands[2]), pool, bits // 8, how)
