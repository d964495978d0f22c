"""Tilings: how a kernel cuts a problem into tiles, and how many tiles a GPU runs at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.patterns import NAME
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

_SIZE = 2**63 - 1
_AXES = 32
# The share of a kernel's time that depends on the number of whole waves; the rest depends on the number of tiles.
# Chosen on matrix products of sizes that were left out of the measurements. Shares from 0.4 to 0.7 do about as well.
_BY_WAVES = 0.6


class Tiling(Immutable, kw_only=True):
    """``tile`` has the sizes that one cluster of blocks works on, by axis; ``at_once`` clusters run at once.

    An axis that is not listed is not cut.
    """

    tile: Mapping[str, int]
    at_once: int

    def work(self, problem: Mapping[str, int]) -> float:
        """The time of the tiles of a problem, in units of one full wave.

        >>> square = Tiling(tile={"m": 128, "n": 128}, at_once=132)
        >>> square.work({"m": 128 * 132, "n": 128, "k": 64}), square.work({"m": 128 * 133, "n": 1, "k": 64})
        (1.0, 1.603030303030303)
        """
        tiles = 1
        for axis, size in self.tile.items():
            tiles *= max(1, -(-problem[axis] // size))
        return _BY_WAVES * -(-tiles // self.at_once) + (1 - _BY_WAVES) * tiles / self.at_once

    def cuts(self, problem: Mapping[str, int]) -> bool:
        """Whether a problem has every axis of the tile."""
        return self.tile.keys() <= problem.keys()

    def to_json(self) -> dict[str, Any]:
        return {"at_once": self.at_once, "tile": dict(self.tile)}

    @classmethod
    def parse(cls, value: object) -> Tiling:
        data = fields.known(fields.as_object(value), ("at_once", "tile"))
        tile = fields.table(data, "tile", _positive, most=_AXES)
        for axis in tile:
            if not NAME.admits(axis):
                raise FormatError("not the name of an axis", f"tile.{axis[:80]}")
        return cls(tile=tile, at_once=fields.parsed(data, "at_once", _positive))


def _positive(value: object) -> int:
    size = fields.count({"": value}, "", most=_SIZE)
    if size < 1:
        raise FormatError("expected 1 or more")
    return size
