"""``scale`` with a key that changes nothing: its variants are copies of each other. No compiler is imported here."""

from __future__ import annotations

from typing import Any

from precast.kernels.authoring.declare import Problem, kernel
from precast.kernels.authoring.dtypes import to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.elementwise import scale
from precast.kernels.own.elementwise.scale import SCALE
from precast.loader.contract.format.config import Config


def problems(config: Config) -> list[Problem]:
    """A launch that does little, one that fits the L2 cache, and one that does not."""
    return [{"n": 1 << 12}, {"n": 1 << 22}, {"n": 1 << 27}]


@kernel(
    op="copies.scale",
    targets=["sm_80+"],
    problems=problems,
    inputs=SCALE.inputs,
    outputs=["out"],
    reference=scale.reference,
    tolerance=scale.tolerance,
    cost=SCALE.cost,
    peer=scale.peer,
)
def copied(dtype: DType, copy: Tuned[int] = 1) -> Any:
    """Compile ``scale``, whatever ``copy`` is."""
    from precast.kernels.own.elementwise.device.scale import compile_scale

    return compile_scale(to_cutlass(dtype), 1, 128, 4)
