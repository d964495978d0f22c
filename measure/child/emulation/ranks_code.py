"""Host code of several ranks, where each has a kernel of its own: the variants of one op that are emulated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from precast.emulator import Launch
from precast.measure.child.emulation.host_code import HostCode


@dataclass(frozen=True, slots=True)
class RanksCode:
    """The host code of each rank. Alone, the first is called."""

    hosts: Sequence[HostCode]

    def launches(self, values: Sequence[Any]) -> list[Launch]:
        """The launches of the first rank."""
        return of_rank(self, 0).launches(values)


@dataclass(frozen=True, slots=True)
class _RankCode:
    host: HostCode
    rank: int

    def launches(self, values: Sequence[Any]) -> list[Launch]:
        """The launches of a rank, of kernels with the rank in their names."""
        return [replace(each, kernel=ranked(each.kernel, self.rank)) for each in self.host.launches(values)]


def of_rank(host: HostCode, rank: int) -> HostCode:
    """The host code of a rank: its own, or that of all."""
    return _RankCode(host.hosts[rank], rank) if isinstance(host, RanksCode) else host


def ranked(kernel: str, rank: int) -> str:
    """The name of a rank's kernel, since those of several may have the same.

    >>> ranked("sum", 3)
    'sum_of_rank_3'
    """
    return f"{kernel}_of_rank_{rank}"
