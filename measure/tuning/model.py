"""The model: estimates which variants are fast on a GPU on which they were not measured, from tiles and data sheets.

It ranks variants and does not predict exact times. The blocks of a GPU work in waves. A wave takes the time to multiply
one tile, or to load its operands from the L2 cache; all waves together take at least the time to load each byte from
memory once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from precast.build.gpu.profile import Profile, profile_named
from precast.build.measurements.tuning_file import Candidate, Gpu, Group, Sizes, sizes_of
from precast.kernels.authoring.declare import Declaration, Problem
from precast.kernels.authoring.tile import Tile
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.measure.launching.cases import filled
from precast.measure.tuning.contest import Contest
from precast.measure.tuning.speeds import Speeds, speeds_named

# Fitted to matrix products on an H200. A block keeps only a few stages of loads in flight.
_BLOCK = 80e3  # bytes a microsecond that one block loads at most
_CACHE = 1.6  # bandwidth of the L2 cache over that of the memory
_LAUNCH = 2.0  # microseconds of any kernel
_NEVER = "1970-01-01T00:00:00Z"  # a fixed date, since nothing was measured, so that the same input gives the same file


@dataclass(frozen=True, slots=True)
class Model:
    """A model of one GPU.

    >>> Model.of("B200").gpu.name
    'NVIDIA B200, modelled'
    """

    profile: Profile
    speeds: Speeds

    @classmethod
    def of(cls, name: str) -> Model:
        """The model of a GPU that has a profile and speeds."""
        return cls(profile_named(name), speeds_named(name))

    @property
    def gpu(self) -> Gpu:
        """The GPU as a tuning file lists it."""
        name = f"NVIDIA {self.profile.name}, modelled"
        return Gpu(name=name, capability=self.profile.capability, driver="", date=_NEVER)

    def group(self, contest: Contest, problems: Sequence[Problem], declaration: Declaration) -> Group | None:
        """The modelled times of a contest's candidates; None if the author does not declare tiles and costs.

        Tiles that several clusters share, or that differ in length, are not modelled.
        """
        candidates = []
        for contestant in contest.contestants:
            config = {**contest.config, **contestant.tuned}
            tile = declaration.tile(config, contest.target) if declaration.tile else None
            tiling = tile.on(self.profile.answer) if tile else None
            if tile is None or tiling is None or declaration.cost is None:
                return None
            if tile.parts > 1 or not tile.whole_waves:  # a wave of these has no one time
                return None
            times = self._times(declaration, config, problems, tile, tiling)
            candidates.append(
                Candidate(tuned=contestant.tuned, code=contestant.code, date=_NEVER, times=times, tiling=tiling)
            )
        return Group(
            op=contest.op,
            config=contest.config,
            target=contest.target,
            gpu=self.gpu.name,
            candidates=tuple(candidates),
        )

    def _times(
        self, declaration: Declaration, config: Config, problems: Sequence[Problem], tile: Tile, tiling: Tiling
    ) -> dict[Sizes, float]:
        declared = declaration.problems(config) if declaration.problems else ()
        return {
            sizes_of(given): round(
                microseconds(declaration, config, filled(given, declared), tile, tiling, self.speeds), 2
            )
            for given in problems
        }


def microseconds(
    declaration: Declaration, config: Config, problem: Problem, tile: Tile, tiling: Tiling, speeds: Speeds
) -> float:
    """The time of a problem, from its cost as a whole and from the cost of each wave of tiles."""
    assert declaration.cost is not None
    whole = declaration.cost(config, problem)
    part = declaration.cost(config, {name: tile.sizes.get(name, size) for name, size in problem.items()})
    tiles = 1
    for axis, size in tile.sizes.items():
        tiles *= max(1, -(-problem[axis] // size))
    waves, resident = -(-tiles // tiling.at_once), min(tiles, tiling.at_once)
    loaded = resident * tile.blocks * _BLOCK
    rate = speeds.flops(str(config["dtype"])) * tile.blocks / (tile.per_sm * speeds.multiprocessors)
    wave = max(part.flops / rate, part.bytes * resident / min(speeds.bytes * _CACHE, loaded))
    return _LAUNCH + max(waves * wave, whole.bytes / min(speeds.bytes, loaded))
