"""What an artifact states of the GPU that it was built for."""

from __future__ import annotations

from precast.build.cache.build_assumptions import assumptions_of
from precast.build.gpu.gpu_table import TABLE
from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.target import Target

FACT = "max_blocks_per_multiprocessor"  # 32 on an A100, 16 on the smaller GPUs of its generation


def test_what_differs_between_the_gpus_of_a_target_is_stated() -> None:
    assert TABLE[(8, 0)][FACT].value == 32 and TABLE[(8, 6)][FACT].value == 16
    for value in (32, 16):
        stated = assumptions_of({FACT: value, "warp_size": 32}, (), Target.parse("sm_80"))
        assert stated == Assumptions(needs={FACT: value}, speed={})


def test_what_each_gpu_of_a_target_has_is_not_stated() -> None:
    assert assumptions_of({FACT: 32, "warp_size": 32}, (), Target.parse("sm_80a")) is None
