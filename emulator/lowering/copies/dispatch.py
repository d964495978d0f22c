"""``cp``: which copy a statement is."""

from __future__ import annotations

from precast.emulator.lowering.copies.bulk import bulk_copy, commit_bulk, wait_bulk
from precast.emulator.lowering.copies.small import arrive, commit, copy, wait
from precast.emulator.lowering.copies.tensor import prefetch_tensor, tensor_load, tensor_store
from precast.emulator.lowering.lowering import Lowering, lowers


@lowers("cp")
def lower_copy(to: Lowering) -> None:
    """All that begins with ``cp``."""
    words = to.modifiers
    reduces = words.take("reduce")
    words.choose("async")
    if not words.take("bulk"):
        return _small(to)
    if words.take("commit_group"):
        return commit_bulk(to)
    if words.take("wait_group"):
        return wait_bulk(to)
    if words.take("prefetch"):
        return prefetch_tensor(to)
    if not words.take("tensor"):
        return bulk_copy(to, reduces)
    if to.operands[0].replace(" ", "").count("{"):
        return tensor_store(to, reduces)
    return tensor_load(to)


def _small(to: Lowering) -> None:
    words = to.modifiers
    if words.take("commit_group"):
        commit(to)
    elif words.take("wait_group"):
        wait(to, int(to.operands[0], 0))
    elif words.take("wait_all"):
        wait(to, -1)
    elif words.take("mbarrier"):
        arrive(to)
    else:
        copy(to)
