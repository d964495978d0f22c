"""Measurements of two caches as one table."""

from __future__ import annotations

from typing import Any

from precast.build.measurements.join import joined
from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.tiling import Tiling

HOPPER = Capability(9, 0)
ONE, TWO = "a" * 64, "b" * 64
TILINGS = {ONE: Tiling(tile={"m": 256}, at_once=10), TWO: Tiling(tile={"m": 128}, at_once=10)}


def measured(*times: float | None, gpu: str = "NVIDIA H200", capability: Capability = HOPPER, **more: Any) -> Measured:
    known = {key: time for key, time in zip((ONE, TWO), times, strict=True) if time}
    return Measured(gpu=gpu, capability=capability, problem={"m": 8}, times=known, **more)


def test_tables_of_two_caches_become_one() -> None:
    one = measured(2.0, 5.0)
    other, far = measured(3.0, 4.0), measured(1.0, None, gpu="NVIDIA B200", capability=Capability(10, 0))
    both = joined([[one], [other, far]], {ONE, TWO})
    assert both == joined([[far, other], [one]], {ONE, TWO})
    assert {(m.gpu, *m.times.values()) for m in both} == {("NVIDIA H200", 2.0, 4.0), ("NVIDIA B200", 1.0)}
    (left,) = joined([[one], [other, far]], {TWO})
    assert left.times == {TWO: 4.0}, "times of other artifacts are left out"


def test_tilings_of_two_caches_become_one() -> None:
    wide, narrow = ({key: TILINGS[key]} for key in (ONE, TWO))
    (both,) = joined([[measured(2.0, None, tilings=wide)], [measured(None, 3.0, tilings=narrow)]], {ONE, TWO})
    assert both.times == {ONE: 2.0, TWO: 3.0} and both.tilings == TILINGS
    (left,) = joined([[both]], {TWO})
    assert left.tilings == narrow
