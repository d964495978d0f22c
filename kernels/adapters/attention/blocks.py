"""Blocks of ``attention_bwd``: how many queries or keys are worked on at once."""

from __future__ import annotations

from precast.kernels.authoring import configs
from precast.loader.contract.format.config import Config

KEYS = 128


def block_of_queries(config: Config, major: int) -> int:
    """How many queries make a block.

    >>> block_of_queries({"head_dim": 128, "causal": True}, 9), block_of_queries({"head_dim": 128, "causal": True}, 10)
    (64, 128)
    """
    if major == 9 and configs.integer(config, "head_dim") == 128:
        return 64 if config["causal"] else 80
    return 128


def turns_of_queries(length: int, block: int, *, causal: bool) -> list[int]:
    """How many blocks of keys add to each block of queries, in a fixed order: those that any of its queries sees.

    >>> turns_of_queries(300, 64, causal=True), turns_of_queries(300, 128, causal=False)
    ([1, 1, 2, 2, 3], [3, 3, 3])
    """
    ends = [min(length, end) if causal else length for end in range(block, length + block, block)]
    return [-(-end // KEYS) for end in ends]
