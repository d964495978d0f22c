"""Tiles of ``attention`` on Hopper: how much a block works on at once, what that takes, and what does not fit."""

from __future__ import annotations

from dataclasses import dataclass

from precast.kernels import configs
from precast.kernels.adapters.attention import cases
from precast.kernels.authoring.tile import Tile
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

MEMORY = 227 * 1024  # bytes of shared memory that a block of sm_90 may have
REGISTERS = {1: 216, 2: 216, 3: 136}  # of a thread for tiles, by groups of warps; the rest is for all else
KEYS = range(64, 193, 16)
_QUERIES = (128, 192)
_STAGES = (1, 2, 3, 4)
_RESIDENT = ((64, 64), (128, 128), (192, 128))
_TUNED = ("queries_tile", "keys_tile", "stages", "resident")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiles:
    """What a block has at once: ``queries``, and ``stages`` of ``keys``.

    Weights stay ``in_registers`` where these suffice, and otherwise go through shared memory. A ``resident`` block
    takes tile after tile, and its results have shared memory of their own.

    >>> Tiles.of({"head_dim": 128, "heads_per_kv": 1, "queries_tile": 192, "resident": True})
    Tiles(queries=192, keys=128, stages=2, size=128, size_v=128, in_registers=False, resident=True)
    """

    queries: int
    keys: int
    stages: int
    size: int
    size_v: int
    in_registers: bool
    resident: bool

    @classmethod
    def of(cls, config: Config) -> Tiles:
        """Those of a config, with the library's own sizes where it names none."""
        _, size, size_v = cases.sizes(config)
        queries = _value_or(config, "queries_tile", 192 if size <= 64 else 128)
        keys = _value_or(config, "keys_tile", 128)
        return cls(
            queries=queries,
            keys=keys,
            stages=_value_or(config, "stages", 2),
            size=size,
            size_v=size_v,
            in_registers=_registers(keys, size_v, in_registers=True) <= REGISTERS[queries // 64],
            resident=bool(config.get("resident")),
        )

    @property
    def registers(self) -> int:
        """Registers of a thread that scores, weights and results take."""
        return _registers(self.keys, self.size_v, in_registers=self.in_registers)

    @property
    def memory(self) -> int:
        """Bytes of shared memory.

        >>> Tiles.of({"head_dim": 128, "heads_per_kv": 1}).memory // 1024
        160
        """
        elements = self.queries * self.size + self.stages * self.keys * (self.size + self.size_v)
        if not self.in_registers:
            elements += self.queries * self.keys
        elif self.resident:
            elements += self.queries * self.size_v
        return 2 * elements + 16 * (1 + 2 * self.stages)


def tile(config: Config, target: Target) -> Tile | None:
    """What a block takes at once, for the choice between measured problems; on Hopper, with many queries.

    For example, 1024 queries need six tiles of 192, and the last one is a third full; 900 queries need five.

    >>> config = {"head_dim": 64, "heads_per_kv": 1, "causal": True, "layout": "dense", "decode": False}
    >>> tile(config, Target.parse("sm_90a")).sizes
    {'batch': 1, 'kv_heads': 1, 'queries': 192}
    """
    if target.major != 9 or config["decode"] or config["layout"] not in ("dense", "varlen"):
        return None
    group, _, _ = cases.sizes(config)
    queries = Tiles.of(config).queries
    packed = bool(config.get("pack", True))
    sizes = {"batch": 1, "kv_heads": 1, "queries": max(1, queries // group) if packed else queries}
    waves = not config["causal"] and config["layout"] == "dense"  # else tiles are longer the later their queries are
    return Tile(sizes=sizes, parts=1 if packed else group, whole_waves=waves)


def chosen(config: Config) -> bool:
    """Whether a config names any of this; without, the library chooses all of it."""
    return any(config.get(name) for name in _TUNED) or config.get("overlap") is False


def refusal(config: Config) -> str | None:
    """Why the tiles of a config cannot be used on sm_90a, or None."""
    _, size, size_v = cases.sizes(config)
    if not chosen(config):
        return None
    for name, allowed in (("queries_tile", _QUERIES), ("keys_tile", KEYS), ("stages", _STAGES)):
        if config.get(name) is not None and config[name] not in allowed:
            return f"{name} is {config[name]}: use one of {', '.join(map(str, allowed))}, or leave it out"
    if (size, size_v) not in _RESIDENT or config["decode"] or config["layout"] not in ("dense", "varlen"):
        return (
            "queries_tile, keys_tile, stages, overlap and resident are for a head_dim of 64 or 128, or 192 with values "
            "of 128, for many queries, and for the layouts dense and varlen: leave them out"
        )
    tiles = Tiles.of(config)
    group = configs.integer(config, "heads_per_kv")
    if config["pack"] and tiles.queries % group and (config.get("resident") or config.get("queries_tile")):
        return (
            f"pack puts heads_per_kv ({group}) heads into a tile of {tiles.queries} queries, which it does not divide: "
            "use pack false"
        )
    return _excess(tiles)


def _excess(tiles: Tiles) -> str | None:
    """Why tiles do not fit a multiprocessor, or None."""
    most = REGISTERS[tiles.queries // 64]
    if tiles.registers > most:
        return (
            f"{tiles.queries} queries and {tiles.keys} keys at a time take {tiles.registers} registers of a thread, of "
            f"{most}: use a smaller keys_tile"
        )
    if tiles.resident and not tiles.in_registers and tiles.keys != tiles.size_v:
        return (
            f"with resident, weights in shared memory need as many keys as values have elements ({tiles.size_v}): use "
            f"keys_tile {tiles.size_v}"
        )
    if tiles.memory > MEMORY:
        return (
            f"tiles take {tiles.memory} bytes of shared memory, of {MEMORY}: use a smaller keys_tile, queries_tile or "
            "stages"
        )
    return None


def _registers(keys: int, size_v: int, *, in_registers: bool) -> int:
    """Registers of a thread: scores and results in float32, and weights of 16 bits."""
    return (keys + size_v) // 2 + (keys // 4 if in_registers else 0)


def _value_or(config: Config, name: str, default: int) -> int:
    return default if config.get(name) is None else configs.integer(config, name)
