"""Fences: they order nothing in the interpreter, which the check of races needs."""

from __future__ import annotations

from precast.emulator.lowering.lowering import Lowering, Unsupported, lowers

_RELAXED, _ACQUIRE, _RELEASE, _BOTH = range(4)  # in the order of Order and Scope in sync/races.h
_SCOPES = {"cta": 0, "cluster": 1, "gpu": 2, "gl": 2, "sys": 3}
_ORDERS = {"acquire": _ACQUIRE, "release": _RELEASE, "acq_rel": _BOTH, "sc": _BOTH}


@lowers("membar")
def membar(to: Lowering) -> None:
    """Lower ``membar``, the older name of ``fence.sc``."""
    if to.modifiers.take("proxy"):
        _proxy(to)
        return
    to.expect(0)
    to.emit("FENCE", _BOTH, _SCOPES[to.modifiers.choose("cta", "gl", "sys")])


@lowers("fence")
def fence(to: Lowering) -> None:
    """Lower ``fence``: of memory, of proxies, and of what ``mbarrier.init`` did."""
    if to.modifiers.take("proxy"):
        _proxy(to)
        return
    if to.modifiers.take("mbarrier_init"):
        to.modifiers.choose("release")
        to.modifiers.choose("cluster")
        to.emit("FENCE_MBARRIER_INIT")
        return
    order = to.modifiers.option(*_ORDERS) or "acq_rel"
    if any(word.startswith("sync_restrict") for word in to.modifiers.left):
        raise Unsupported("fence with .sync_restrict is not emulated")
    to.expect(0)
    to.emit("FENCE", _ORDERS[order], _SCOPES[to.modifiers.choose("cta", "cluster", "gpu", "sys")])


def _proxy(to: Lowering) -> None:
    if to.modifiers.take("alias"):
        # An address of multicast memory and those of its copies reach the same bytes, at once.
        to.expect(0)
        to.emit("NO_EFFECT")
        return
    tensormap = to.modifiers.option("tensormap::generic")
    if tensormap:
        # Tensor maps are read where a copy starts: what was written before is there.
        to.modifiers.choose("acquire", "release")
        to.modifiers.choose("cta", "cluster", "gpu", "sys")
        to.emit("NO_EFFECT")
        return
    to.modifiers.choose("async")
    to.expect(0)
    space = to.modifiers.option("global", "shared::cta", "shared::cluster")
    to.emit("FENCE_PROXY_ASYNC", int(space != "global"), int(space in ("", "global")))
