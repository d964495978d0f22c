"""Barriers of a block, of a warp and of a cluster."""

from __future__ import annotations

from precast.emulator.lowering.lowering import ABSENT, Lowering, Unsupported, lowers

_SYNC, _ARRIVE, _POPC, _AND, _OR = range(5)  # in the order of sync/barriers.cpp
_VOTES = {"popc": _POPC, "and": _AND, "or": _OR}


@lowers("bar")
def bar(to: Lowering) -> None:
    """Lower ``bar.sync``, ``bar.arrive``, ``bar.red`` (all lanes of a warp together) and ``bar.warp.sync``."""
    if to.modifiers.take("warp"):
        to.modifiers.choose("sync")
        to.expect(1)
        to.emit("BARRIER_WARP", to.source(to.operands[0]))
        return
    to.modifiers.take("cta")
    _barrier(to, aligned=True)


@lowers("barrier")
def barrier(to: Lowering) -> None:
    """Lower ``barrier.*``, where lanes may come one after the other, and ``barrier.cluster``."""
    aligned = to.modifiers.take("aligned")
    if to.modifiers.take("cluster"):
        _cluster(to, aligned)
        return
    to.modifiers.take("cta")
    _barrier(to, aligned)


def _barrier(to: Lowering, aligned: bool) -> None:
    what = to.modifiers.choose("sync", "arrive", "red")
    number, count, result, vote = ABSENT, ABSENT, ABSENT, ABSENT
    operands = list(to.operands)
    kind = {"sync": _SYNC, "arrive": _ARRIVE}.get(what, -1)
    if kind < 0:
        kind = _VOTES[to.modifiers.choose(*_VOTES)]
        to.modifiers.type("u32" if kind == _POPC else "pred")
        to.expect(3, 4)
        result = to.target(operands.pop(0), 32 if kind == _POPC else 1)
        vote = to.predicate(operands.pop())
    elif kind == _ARRIVE and len(operands) != 2:
        raise Unsupported("an arrival needs the number of threads")
    if not 1 <= len(operands) <= 2:
        raise Unsupported(f"it has {len(to.operands)} operands")
    number = to.source(operands[0])
    count = to.source(operands[1]) if len(operands) == 2 else ABSENT
    to.emit("BARRIER", number, count, kind, int(aligned), result, vote)


def _cluster(to: Lowering, aligned: bool) -> None:
    to.expect(0)
    if to.modifiers.choose("arrive", "wait") == "arrive":
        order = to.modifiers.option("release", "relaxed")
        to.emit("CLUSTER_ARRIVE", int(order != "relaxed"), int(aligned))
        return
    order = to.modifiers.option("acquire", "relaxed")
    to.emit("CLUSTER_WAIT", int(order != "relaxed"), int(aligned))


@lowers("mapa")
def mapa(to: Lowering) -> None:
    """Lower ``mapa``: the address of the same place in the shared memory of another block of the cluster."""
    generic = not to.modifiers.take("shared::cluster")
    bits = 64 if to.modifiers.type("u32", "u64") == "u64" else 32
    if generic and bits == 32:
        raise Unsupported("a generic address of 32 bits")
    to.expect(3)
    target = to.target(to.operands[0], bits)
    to.emit(f"MAPA_{bits}", target, to.source(to.operands[1], bits), to.source(to.operands[2]), int(generic))


@lowers("getctarank")
def getctarank(to: Lowering) -> None:
    """Lower ``getctarank``: the rank of the block that an address belongs to."""
    generic = not to.modifiers.take("shared::cluster")
    bits = 64 if to.modifiers.type("u32", "u64") == "u64" else 32
    to.expect(2)
    if generic and bits == 32:
        raise Unsupported("a generic address of 32 bits")
    to.emit(f"CTA_RANK_{bits}", to.target(to.operands[0]), to.source(to.operands[1], bits))
