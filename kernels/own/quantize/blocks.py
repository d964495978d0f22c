"""What the kernels from and to float8 have in common: the config, and the problems to verify them with."""

from __future__ import annotations

from functools import partial

from precast.kernels import configs
from precast.kernels.authoring.declare import Cost, Problem
from precast.kernels.authoring.dtypes import bits
from precast.kernels.own import row_cases
from precast.kernels.own.float8 import BLOCK
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_BLOCKS = ("token", BLOCK)
_UNROLL = (1, 2, 4)
_STEP = 16  # elements of float8 in 16 bytes


def block_of(config: Config) -> int | None:
    """How many columns share a scale; None where all of a row do.

    >>> block_of({"block": "token"}), block_of({"block": 128})
    (None, 128)
    """
    return None if config["block"] == "token" else BLOCK


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"dtype": "bfloat16", "width": 1000, "block": 128, "threads": 128, "unroll": 2}
    >>> supports(config, Target.parse("sm_90a"))
    'width is 1000: use a multiple of 128'
    """
    reason = configs.not_among(config, "block", _BLOCKS) or configs.not_among(config, "unroll", _UNROLL)
    return reason or row_cases.refusal(config, "width", multiple=block_of(config) or _STEP)


problems = partial(row_cases.problems, key="width", pad=_STEP)
"""No row to many, with room between rows and between the scales of blocks."""

large = partial(row_cases.large, key="width")
"""More than 2**31 elements."""


def cost(config: Config, problem: Problem, *, flops: int) -> Cost:
    """Some operations for each element; everything read once and written once.

    >>> cost({"dtype": "bfloat16", "width": 1024, "block": 128}, {"rows": 2}, flops=3)
    Cost(flops=6144, bytes=6208)
    """
    rows, width = problem["rows"], configs.integer(config, "width")
    scales = width // (block_of(config) or width)
    return Cost(flops * rows * width, rows * (width * (bits(str(config["dtype"])) // 8 + 1) + 4 * scales))
