"""Shards: a plan divided among several machines, so that exactly one of them builds each variant."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

from precast.build.plan.plan import Plan
from precast.build.plan.variant import Variant
from precast.loader.errors import ConfigError

_FORM = re.compile(r"([0-9]{1,6})/([0-9]{1,6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Shard:
    """The ``index``-th of ``count`` parts of a plan, counted from 1.

    >>> Shard.parse("2/4")
    Shard(index=2, count=4)
    """

    index: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``I/N``."""
        match = _FORM.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise ConfigError(f"{text!r} is not a shard: write I/N with I from 1 to N, such as 2/4")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


def part_of(plan: Plan, shard: Shard) -> Plan:
    """The plan of one shard: the same ops, and the variants of this shard alone.

    Variants are assigned in turn, op by op and target by target, because those of one op cost about the same. Within an
    op they are ordered by their digests, so that no shard gets all large sizes. The result depends only on the plan.
    """
    dealt = sorted({v.identity: v for v in plan.variants}.values(), key=_order)  # one for all of its GPUs
    mine = {v.identity for v in dealt[shard.index - 1 :: shard.count]}
    return replace(plan, variants=tuple(v for v in plan.variants if v.identity in mine))


def _order(variant: Variant) -> tuple[str, str, str]:
    return variant.op, str(variant.target), hashlib.sha256(variant.identity.encode()).hexdigest()
