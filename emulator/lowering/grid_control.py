"""What blocks do with other grids and clusters: dependent launches, schedulers; and registers of the machine."""

from __future__ import annotations

from precast.emulator.lowering.lowering import ABSENT, Lowering, Unsupported, lowers

_FEWEST, _MOST = 24, 256


@lowers("griddepcontrol")
def griddepcontrol(to: Lowering) -> None:
    """Lower ``griddepcontrol``."""
    wait = to.modifiers.choose("wait", "launch_dependents") == "wait"
    to.expect(0)
    to.emit("GRID_WAIT" if wait else "GRID_LAUNCH_DEPENDENTS")


@lowers("clusterlaunchcontrol")
def clusterlaunchcontrol(to: Lowering) -> None:
    """Lower ``clusterlaunchcontrol``."""
    if to.modifiers.take("try_cancel"):
        to.modifiers.choose("async")
        to.modifiers.option("shared::cta")
        to.modifiers.choose("mbarrier::complete_tx::bytes")
        everyone = to.modifiers.take("multicast::cluster::all")
        to.modifiers.type("b128")
        to.expect(2)
        to.emit("CLUSTER_TRY_CANCEL", to.address(to.operands[0]), to.address(to.operands[1]), int(everyone))
        return
    to.modifiers.choose("query_cancel")
    to.modifiers.type("b128")
    if to.modifiers.take("is_canceled"):
        to.modifiers.choose("pred")
        to.expect(2)
        to.emit("CLUSTER_IS_CANCELED", to.source(to.operands[1], 128), to.target(to.operands[0], 1))
        return
    _first_block(to)


def _first_block(to: Lowering) -> None:
    to.expect(2)
    response = to.source(to.operands[1], 128)
    word = to.modifiers.choose("get_first_ctaid", *(f"get_first_ctaid::{i}" for i in "xyz"))
    if word != "get_first_ctaid":
        to.modifiers.choose("b32")
        places = [to.target(to.operands[0]) if word.endswith(i) else ABSENT for i in "xyz"]
        to.emit("CLUSTER_FIRST_BLOCK", response, *places)
        return
    to.modifiers.choose("v4")
    to.modifiers.choose("b32")
    targets = to.items(to.operands[0])
    if len(targets) != 4:
        raise Unsupported(f"it has {len(targets)} targets, not 4")
    if targets[3] != "_":
        raise Unsupported("the fourth element of the first block has no meaning")
    to.emit("CLUSTER_FIRST_BLOCK", response, *(to.target(target) for target in targets[:3]))


@lowers("setmaxnreg")
def setmaxnreg(to: Lowering) -> None:
    """Lower ``setmaxnreg``: registers are not counted, but all lanes must come."""
    to.modifiers.choose("inc", "dec")
    to.modifiers.choose("sync")
    to.modifiers.choose("aligned")
    to.modifiers.type("u32")
    to.expect(1)
    count = int(to.operands[0], 0)
    if count % 8 or not _FEWEST <= count <= _MOST:
        raise Unsupported(f"{count} registers: it must be a multiple of 8 from {_FEWEST} to {_MOST}")
    to.emit("NO_EFFECT_ALIGNED")


@lowers("nanosleep")
def nanosleep(to: Lowering) -> None:
    """Lower ``nanosleep``: others have their turn."""
    to.modifiers.type("u32")
    to.expect(1)
    to.emit("NANOSLEEP")
