"""``cp.async.bulk`` and ``cp.reduce.async.bulk``: runs of bytes."""

from __future__ import annotations

from precast.emulator.lowering.copies.hints import take_cache_hint
from precast.emulator.lowering.lowering import ABSENT, Lowering, Unsupported

REDUCTIONS = {"add": 0, "min": 1, "max": 2, "inc": 3, "dec": 4, "and": 5, "or": 6, "xor": 7}
# As in tensor maps.
TYPES = {"u32": 2, "s32": 3, "b32": 2, "u64": 4, "s64": 5, "b64": 4, "f16": 6, "f32": 7, "f64": 9, "bf16": 10}
_SHARED = ("shared::cta", "shared::cluster", "shared")


def bulk_copy(to: Lowering, reduces: bool) -> None:
    """A copy between spaces; its first two words are where to and where from."""
    words = to.modifiers
    target, source = words.next(), words.next()
    if target in _SHARED and source == "global":
        _load(to)
    elif target in _SHARED and source in _SHARED:
        _to_block(to, reduces)
    elif target == "global" and source in _SHARED:
        _store(to, reduces)
    else:
        raise Unsupported(f"a bulk copy from .{source} to .{target}")


def _reduction(to: Lowering, reduces: bool) -> tuple[int, int]:
    if not reduces:
        return -1, 0
    words = to.modifiers
    operation = words.choose(*REDUCTIONS)
    kind = words.type(*TYPES)
    exact = words.take("noftz")
    if kind in ("f16", "bf16") and operation == "add" and not exact:
        raise Unsupported(f"a reduction of {kind} without .noftz")
    return REDUCTIONS[operation], TYPES[kind]


def _load(to: Lowering) -> None:
    words = to.modifiers
    words.choose("mbarrier::complete_tx::bytes")
    take_cache_hint(to)
    mask = to.source(to.operands.pop()) if words.take("multicast::cluster") else ABSENT
    to.expect(4)
    target, source, size, mbarrier = to.operands
    to.emit("bulk_load", to.address(target), to.address(source), to.source(size), to.address(mbarrier), mask)


def _to_block(to: Lowering, reduces: bool) -> None:
    to.modifiers.choose("mbarrier::complete_tx::bytes")
    operation, kind = _reduction(to, reduces)
    to.expect(4)
    target, source, size, mbarrier = to.operands
    addresses = to.address(target), to.address(source), to.source(size), to.address(mbarrier)
    to.emit("bulk_to_block", *addresses, operation, kind)


def _store(to: Lowering, reduces: bool) -> None:
    words = to.modifiers
    words.choose("bulk_group")
    masked = words.take("cp_mask")
    mask = to.source(to.operands.pop()) if masked else ABSENT
    take_cache_hint(to)
    operation, kind = _reduction(to, reduces)
    to.expect(3)
    target, source, size = to.operands
    to.emit("bulk_store", to.address(target), to.address(source), to.source(size), operation, kind, mask)


def commit_bulk(to: Lowering) -> None:
    """``cp.async.bulk.commit_group``."""
    to.emit("bulk_commit")


def wait_bulk(to: Lowering) -> None:
    """``cp.async.bulk.wait_group{.read} N``."""
    reads = to.modifiers.take("read")
    to.emit("bulk_wait", int(reads), immediate=int(to.operands[0], 0))
