"""Static schedules for persistent blocks: which tile of which head each block of a grid takes, in which order.

A round has as many tiles as there are blocks, and each block takes one of them; every second round is assigned in
reverse order. With a causal mask, tiles are ordered by their number of keys, longest first. Where heads do not fit into
the L2 cache together, that is done in sections of heads that do, every second section in reverse order, so that tiles
in flight have nearly equal lengths. Without a mask, all tiles of the heads that share keys are taken together. No
counter in global memory is needed, and the blocks have nearly equal work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, Int64, const_expr
from cutlass.cute import FastDivmodDivisorV2
from flash_attn.cute.tile_scheduler import SchedulingMode, TileSchedulerArguments, WorkTileInfo
from quack.cute_dsl_utils import ParamsBase

_CACHED = (
    20 << 20
)  # bytes of keys and values: an L2 cache of 50 MB has two halves, each for the multiprocessors beside it


@dataclass
class Rounds(ParamsBase):
    """The position of a block: its tile, and the distance to its next one."""

    params: Any
    tile: Int32
    step: Int32

    @classmethod
    def create(cls, params: Any, ctx: Any = None, *, loc: Any = None, ip: Any = None) -> Rounds:
        """The first tile of this block."""
        block, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        return cls(params, block, 2 * (blocks - block) - 1)

    @classmethod
    def to_underlying_arguments(
        cls,
        args: TileSchedulerArguments,
        *,
        scheduling_mode: SchedulingMode = SchedulingMode.STATIC,
        loc: Any = None,
        ip: Any = None,
    ) -> Any:
        """The kernel's parameters, from the sizes of a launch."""
        return cls.Params.create(args, cls.group)

    def initial_work_tile_info(self, *, loc: Any = None, ip: Any = None) -> WorkTileInfo:
        """The first tile."""
        return self.get_current_work()

    def prefetch_next_work(self, *, loc: Any = None, ip: Any = None) -> None:
        """Does nothing: the next tile is computed, not requested."""

    def advance_to_next_work(self, *, loc: Any = None, ip: Any = None) -> WorkTileInfo:
        """The tile of the next round. The distances alternate between two lengths, which add up to two rounds."""
        blocks, _, _ = cute.arch.grid_dim()
        self.tile += self.step
        self.step = 2 * blocks - self.step
        return self.get_current_work()

    def producer_tail(self, *, loc: Any = None, ip: Any = None) -> None:
        """Does nothing: no block waits for another."""


def _blocks(tiles: Int32) -> tuple[Int32, Int32, Int32]:
    """A block for each multiprocessor, or for each tile if there are fewer tiles."""
    processors = cutlass.utils.HardwareInfo().get_device_multiprocessor_count()
    return cutlass.min(processors, tiles), Int32(1), Int32(1)


@dataclass
class DenseRounds(Rounds):
    """Sequences of one length. ``group`` is how many of the heads share a key head."""

    @dataclass
    class Params(ParamsBase):
        """Sizes of a launch. A section is the heads of a batch whose keys fit the L2 cache together."""

        tiles: Int32
        heights: Int32
        sections: Int32
        section: Int32
        whole: Int32
        by_section_tiles: FastDivmodDivisorV2
        by_section: FastDivmodDivisorV2
        by_rest: FastDivmodDivisorV2
        by_head: FastDivmodDivisorV2
        falling: cutlass.Constexpr[bool] = True

        @staticmethod
        @cute.jit
        def create(args: TileSchedulerArguments, group: cutlass.Constexpr[int]) -> Any:
            """The parameters of a launch."""
            heads = args.num_head * args.num_batch
            bytes_of_head = Int64(args.seqlen_k) * (args.headdim + args.headdim_v) * args.element_size
            cached = Int32(Int64(_CACHED) // cutlass.max(bytes_of_head, Int64(1)))
            together = cutlass.max(cached, Int32(1)) * group if const_expr(args.lpt) else Int32(group)
            section = cutlass.max(cutlass.min(together, heads), Int32(1))
            rest = heads % section
            return DenseRounds.Params(
                tiles=args.num_block * heads,
                heights=args.num_block,
                sections=(heads + section - 1) // section,
                section=section,
                whole=heads // section,
                by_section_tiles=FastDivmodDivisorV2(cutlass.max(section * args.num_block, Int32(1))),
                by_section=FastDivmodDivisorV2(section),
                by_rest=FastDivmodDivisorV2(cutlass.max(rest, Int32(1))),
                by_head=FastDivmodDivisorV2(args.num_head),
                falling=args.lpt,
            )

    group = 1

    @staticmethod
    def get_grid_shape(params: Params, *, loc: Any = None, ip: Any = None) -> tuple[Int32, Int32, Int32]:
        """A block for each multiprocessor, or for each tile if there are fewer tiles."""
        return _blocks(params.tiles)

    @cute.jit
    def get_current_work(self, *, loc: Any = None, ip: Any = None) -> WorkTileInfo:
        """The tile of this round."""
        params = self.params
        section, rest = divmod(self.tile, params.by_section_tiles)
        height, head_in_section = Int32(0), Int32(0)
        if section < params.whole:
            height, head_in_section = divmod(rest, params.by_section)
        else:
            height, head_in_section = divmod(rest, params.by_rest)
        rising = const_expr(not params.falling) or (params.sections - section) % 2 == 0
        if not rising:
            height = params.heights - 1 - height
        batch, head = divmod(section * params.section + head_in_section, params.by_head)
        return WorkTileInfo((Int32(height), Int32(head), Int32(batch), Int32(0)), self.tile < params.tiles)


@dataclass
class PackedRounds(Rounds):
    """Sequences of different lengths, packed one after another.

    ``units`` is how many tiles a head has, ``tallest`` how many of them the longest sequence has.
    """

    units: Int32
    tallest: Int32

    @dataclass
    class Params(ParamsBase):
        """Sizes of a launch, and where its sequences begin. A section is the heads whose keys of all sequences fit the
        L2 cache together."""

        starts: cute.Tensor
        sequences: Int32
        heads: Int32
        most: Int32
        section: Int32
        rows: cutlass.Constexpr[int]
        packed: cutlass.Constexpr[int]
        falling: cutlass.Constexpr[bool] = True

        @staticmethod
        @cute.jit
        def create(args: TileSchedulerArguments, group: cutlass.Constexpr[int]) -> Any:
            """The parameters of a launch."""
            bytes_of_head = Int64(args.seqlen_k) * (args.headdim + args.headdim_v) * args.element_size
            cached = Int32(Int64(_CACHED) // cutlass.max(bytes_of_head, Int64(1)))
            rows = args.tile_shape_mn[0]
            together = cutlass.max(cached, Int32(1)) * group if const_expr(args.lpt) else Int32(group)
            return PackedRounds.Params(
                starts=args.mCuSeqlensQ,
                sequences=args.num_batch,
                heads=args.num_head,
                most=((args.total_q + args.num_batch * (rows - 1)) // rows) * args.num_head,
                section=cutlass.max(cutlass.min(together, args.num_head), Int32(1)),
                rows=rows,
                packed=args.qhead_per_kvhead_packgqa,
                falling=args.lpt,
            )

        @cute.jit
        def height(self, sequence: Int32) -> Int32:
            """How many tiles a sequence has; none where there is no such sequence."""
            tiles = Int32(0)
            if sequence < self.sequences:
                tokens = self.starts[sequence + 1] - self.starts[sequence]
                tiles = cute.ceil_div(tokens * self.packed, self.rows)
            return tiles

        @cute.jit
        def above(self, level: Int32) -> Int32:
            """How many tiles of a head are this far up in their sequences, or further."""
            total, first = Int32(0), Int32(cute.arch.lane_idx())
            while first < self.sequences + cute.arch.lane_idx():
                total += cutlass.max(self.height(first) - level, Int32(0))
                first += cute.arch.WARP_SIZE
            return cute.arch.warp_redux_sync(total, "add")

        @cute.jit
        def tall(self) -> Int32:
            """How many tiles the longest sequence has."""
            most, first = Int32(0), Int32(cute.arch.lane_idx())
            while first < self.sequences + cute.arch.lane_idx():
                most = cutlass.max(most, self.height(first))
                first += cute.arch.WARP_SIZE
            return cute.arch.warp_redux_sync(most, "max")

        @cute.jit
        def taller(self, level: Int32, which: Int32) -> Int32:
            """The sequence that is the so-manieth of those with a tile at this level."""
            lane = Int32(cute.arch.lane_idx())
            first, sequence = Int32(0), Int32(0)
            while which >= 0 and first < self.sequences:
                reaches = self.height(first + lane) > level
                ballot = Int32(cute.arch.vote_ballot_sync(reaches))
                before = Int32(cute.arch.popc(ballot & ((Int32(1) << lane) - 1)))
                picked = Int32(cute.arch.vote_ballot_sync(reaches and before == which))
                if picked != 0:
                    sequence = first + Int32(cute.arch.popc(picked - 1))
                which = which - Int32(cute.arch.popc(ballot))
                first += cute.arch.WARP_SIZE
            return sequence

    group = 1

    @classmethod
    def create(cls, params: Any, ctx: Any = None, *, loc: Any = None, ip: Any = None) -> Rounds:
        """The first tile of this block."""
        block, _, _ = cute.arch.block_idx()
        blocks, _, _ = cute.arch.grid_dim()
        return cls(params, block, 2 * (blocks - block) - 1, params.above(Int32(0)), params.tall())

    @staticmethod
    def get_grid_shape(params: Params, *, loc: Any = None, ip: Any = None) -> tuple[Int32, Int32, Int32]:
        """A block for each multiprocessor, or for as many tiles as there may be where these are fewer."""
        return _blocks(params.most)

    @cute.jit
    def get_current_work(self, *, loc: Any = None, ip: Any = None) -> WorkTileInfo:
        """The tile of this round."""
        params = self.params
        valid = self.tile < self.units * params.heads
        head, level, sequence = Int32(0), Int32(0), Int32(0)
        if valid:
            of_section = params.section * self.units
            section = self.tile // of_section
            rest = self.tile - section * of_section
            width = cutlass.min(params.section, params.heads - section * params.section)
            unit = rest // width
            head = section * params.section + rest - unit * width
            falling = const_expr(not params.falling) or (cute.ceil_div(params.heads, params.section) - section) % 2 == 1
            if not falling:
                unit = self.units - 1 - unit
            end, beyond = self.tallest, Int32(0)  # a level that is too high, and how many tiles are there or further
            while end - level > 1:
                middle = (level + end) // 2
                count = params.above(middle)
                if count > unit:
                    level = middle
                else:
                    end, beyond = middle, count
            sequence = params.taller(level, unit - beyond)
        return WorkTileInfo((level, head, sequence, Int32(0)), valid)


def orders(group: int) -> dict[str, Any]:
    """The classes that replace those of the library, by its names; ``group`` heads share a key head."""
    dense = type("DenseRounds", (DenseRounds,), {"group": group})
    packed = type("PackedRounds", (PackedRounds,), {"group": group})
    return {
        "SingleTileScheduler": dense,
        "SingleTileLPTScheduler": dense,
        "SingleTileVarlenScheduler": packed,
    }
