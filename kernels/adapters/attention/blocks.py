"""Blocks of ``attention_bwd``: how many queries or keys are worked on at once, and the order of their accumulators."""

from __future__ import annotations

from dataclasses import dataclass

from precast.kernels.adapters.attention.accumulators import Order
from precast.kernels.authoring import configs
from precast.loader.contract.format.config import Config

KEYS = 128  # of a thread block


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """How many ``queries`` and ``keys`` are rounded up to; keys are those of a pair of thread blocks with ``two_cta``.

    >>> config = {"head_dim": 128, "causal": True, "two_cta": False}
    >>> Blocks.of(config, 9).queries, Blocks.of({**config, "two_cta": True}, 10).keys
    (64, 256)
    """

    queries: int
    keys: int
    queries_order: Order
    keys_order: Order

    @classmethod
    def of(cls, config: Config, major: int) -> Blocks:
        """Those of a config on a GPU's generation."""
        if major != 9:
            pair = bool(config["two_cta"])
            order: Order = "pair" if pair else "tcgen05"
            return cls(queries=128, keys=2 * KEYS if pair else KEYS, queries_order=order, keys_order="tcgen05")
        wide = configs.integer(config, "head_dim") == 128
        queries = 128 if not wide else 64 if config["causal"] else 80
        return cls(queries=queries, keys=KEYS, queries_order="wgmma", keys_order="wgmma")

    def turns(self, length: int, *, causal: bool) -> list[int]:
        """How many times each block of queries is added to, in a fixed order: once by all keys that it sees of a block.

        >>> blocks = Blocks(queries=64, keys=128, queries_order="wgmma", keys_order="wgmma")
        >>> blocks.turns(300, causal=True), blocks.turns(130, causal=False)
        ([1, 1, 2, 2, 3], [2, 2, 2])
        """
        ends = range(self.queries, length + self.queries, self.queries)
        return [-(-(min(length, end) if causal else length) // self.keys) for end in ends]
