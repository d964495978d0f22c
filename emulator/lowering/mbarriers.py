"""``mbarrier.*``."""

from __future__ import annotations

from precast.emulator.lowering.lowering import ABSENT, Lowering, Unsupported, lowers

_ARRIVE, _DROP, _EXPECT, _COMPLETE = range(4)  # in the order of sync/mbarrier_operations.cpp


@lowers("mbarrier")
def mbarrier(to: Lowering) -> None:
    """Lower all of them, by their second word."""
    what = to.modifiers.next()
    function = _FUNCTIONS.get(what)
    if function is None:
        raise Unsupported(f"mbarrier.{what} is not emulated")
    function(to)


def _space(to: Lowering) -> None:
    """Where it is: an address has its block's rank in any case."""
    to.modifiers.option("shared", "shared::cta", "shared::cluster")
    to.modifiers.type("b64")


def _init(to: Lowering) -> None:
    _space(to)
    to.expect(2)
    to.emit("MBARRIER_INIT", to.address(to.operands[0]), to.source(to.operands[1]))


def _inval(to: Lowering) -> None:
    _space(to)
    to.expect(1)
    to.emit("MBARRIER_INVAL", to.address(to.operands[0]))


def _order(to: Lowering, default: str) -> bool:
    """Whether it has the usual order; without one it is relaxed."""
    order = to.modifiers.option(default, "relaxed")
    to.modifiers.option("cta", "cluster")
    return order != "relaxed"


def _arrive(to: Lowering, drop: bool = False) -> None:
    release = _order(to, "release")
    expects = to.modifiers.take("expect_tx")
    completes = not to.modifiers.take("noComplete")
    _space(to)
    if to.operands[0].startswith("["):
        raise Unsupported("an arrival without a place for the state")
    to.expect(2, 3)
    state, address = to.target(to.operands[0], 64), to.address(to.operands[1])
    what = _DROP if drop else _ARRIVE
    count, transfer = ABSENT, ABSENT
    if expects:
        to.expect(3)
        transfer = to.source(to.operands[2])
    elif len(to.operands) == 3:
        count = to.source(to.operands[2])
    to.emit("MBARRIER_ARRIVE", address, state, what, count, transfer, int(release), int(completes))


def _arrive_drop(to: Lowering) -> None:
    _arrive(to, drop=True)


def _transfer(to: Lowering, what: int) -> None:
    to.modifiers.take("relaxed")
    to.modifiers.option("cta", "cluster")
    _space(to)
    to.expect(2)
    transfer = to.source(to.operands[1])
    to.emit("MBARRIER_ARRIVE", to.address(to.operands[0]), ABSENT, what, ABSENT, transfer, 0, 1)


def _expect(to: Lowering) -> None:
    _transfer(to, _EXPECT)


def _complete(to: Lowering) -> None:
    _transfer(to, _COMPLETE)


def _test_wait(to: Lowering) -> None:
    to.expect(3)
    _wait(to)


def _try_wait(to: Lowering) -> None:
    to.expect(3, 4)  # the fourth is how long it may be suspended
    _wait(to)


def _wait(to: Lowering) -> None:
    parity = to.modifiers.take("parity")
    acquire = _order(to, "acquire")
    _space(to)
    awaited = to.source(to.operands[2], 32 if parity else 64)
    result = to.target(to.operands[0], 1)
    to.emit("MBARRIER_WAIT", to.address(to.operands[1]), result, awaited, int(parity), int(acquire))


def _pending_count(to: Lowering) -> None:
    to.modifiers.type("b64")
    to.expect(2)
    to.emit("MBARRIER_PENDING_COUNT", to.target(to.operands[0]), to.source(to.operands[1], 64))


_FUNCTIONS = {
    "init": _init,
    "inval": _inval,
    "arrive": _arrive,
    "arrive_drop": _arrive_drop,
    "expect_tx": _expect,
    "complete_tx": _complete,
    "test_wait": _test_wait,
    "try_wait": _try_wait,
    "pending_count": _pending_count,
}
