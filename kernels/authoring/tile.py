"""Tiles: the part of a problem that one cluster of blocks works on, as the author of a kernel declares it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from precast.loader.contract.format.tuning.tiling import Tiling


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """``sizes`` are those of the tile of one cluster, by the axes of the problem, along which the kernel cuts it.

    ``blocks`` is how many blocks the cluster has, and ``per_sm`` how many blocks a multiprocessor holds at once. An
    axis that every tile runs through whole, or that the blocks of a cluster share, is left out. ``parts`` is how many
    clusters share a tile along something else than these axes, such as the heads of a group. Without ``whole_waves``,
    tiles differ in length and short ones fill what long ones leave: the time grows with the tiles, not with the waves.

    >>> Tile(sizes={"m": 256, "n": 128}, blocks=2).on({"max_active_clusters_2": 66}.get)
    Tiling(tile={'m': 256, 'n': 128}, at_once=66)
    >>> Tile(sizes={"queries": 128}, parts=4).on({"max_active_clusters_1": 132}.get)
    Tiling(tile={'queries': 128}, at_once=33)
    """

    sizes: Mapping[str, int]
    blocks: int = 1
    per_sm: int = 1
    parts: int = 1
    whole_waves: bool = True

    def on(self, ask: Callable[[str], int | str | None]) -> Tiling | None:
        """The tiling on a GPU, by its facts; None where the number of clusters that run at once is unknown."""
        at_once = ask(f"max_active_clusters_{self.blocks}")
        if not isinstance(at_once, int) or at_once < 1:
            return None
        tiles = max(1, at_once * self.per_sm // self.parts) if self.whole_waves else 1
        return Tiling(tile=dict(self.sizes), at_once=tiles)
