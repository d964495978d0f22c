"""The ring of stages that TMA fills: one piece, through which every kernel walks."""

from __future__ import annotations

import pytest

from tests.helpers.source_tree import ROOT

OWN = ROOT / "kernels" / "own"
RING = OWN / "device" / "tma_ring.py"
# What walks a ring: the parity of a phase that turns, and the parts in which TMA fills stages.
WALKS = ("parity ^= 1", "tma_partition(")


@pytest.mark.parametrize("walk", WALKS)
def test_nothing_else_walks_a_ring(walk: str) -> None:
    assert walk in RING.read_text()
    others = [path for path in OWN.rglob("*.py") if path != RING and walk in path.read_text()]
    assert not others, f"{[str(path.relative_to(ROOT)) for path in others]}: use precast.kernels.own.device.tma_ring"


def test_all_that_load_by_tma_use_it() -> None:
    loading = {path for path in OWN.rglob("*.py") if "cpasync.prefetch_descriptor" in path.read_text()}
    using = {path for path in OWN.rglob("*.py") if "tma_ring import" in path.read_text()}
    assert loading <= using and len(using) >= 3
