"""``cp.async``: copies of 4, 8 or 16 bytes by threads."""

from __future__ import annotations

from precast.emulator.lowering.copies.hints import take_cache_hint
from precast.emulator.lowering.lowering import ABSENT, Lowering, Unsupported
from precast.emulator.ptx.literals import literal_bits


def copy(to: Lowering) -> None:
    """``cp.async.ca.shared.global [to], [from], bytes{, bytes to read}``."""
    words = to.modifiers
    caching = words.choose("ca", "cg")
    words.choose("shared", "shared::cta")
    words.choose("global")
    take_cache_hint(to)
    words.option("L2::64B", "L2::128B", "L2::256B")
    to.expect(3, 4)
    size = literal_bits(to.operands[2], 32)
    if size not in (4, 8, 16) or (caching == "cg" and size != 16):
        raise Unsupported(f"a copy of {to.operands[2]} bytes")
    target, source = to.address(to.operands[0]), to.address(to.operands[1])
    read = ignored = ABSENT
    if len(to.operands) == 4:
        text = to.operands[3]
        if text in ("true", "false") or to.bits(text.removeprefix("!")) == 1:
            ignored = to.predicate(text)
        else:
            read = to.source(text)
    to.emit(
        "cp_async",
        *(target.register, int(target.wide), target.offset),
        *(source.register, int(source.wide), source.offset),
        *(size, read, ignored),
    )


def commit(to: Lowering) -> None:
    """``cp.async.commit_group``."""
    to.emit("cp_async_commit")


def wait(to: Lowering, groups: int) -> None:
    """``cp.async.wait_group N``, ``cp.async.wait_all`` with -1."""
    to.emit("cp_async_wait", immediate=groups)


def arrive(to: Lowering) -> None:
    """``cp.async.mbarrier.arrive{.noinc}.shared.b64 [mbarrier]``."""
    words = to.modifiers
    words.choose("arrive")
    without_increment = words.take("noinc")
    words.option("shared", "shared::cta")
    words.type("b64")
    address = to.address(to.operands[0])
    to.emit("cp_async_arrive", address.register, int(address.wide), address.offset, int(without_increment))
