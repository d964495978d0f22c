"""FlashAttention-4's forward pass for Hopper with persistent blocks, and with tile shapes that the library fixes."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, const_expr
from flash_attn.cute import utils
from flash_attn.cute.flash_fwd_sm90 import FlashAttentionForwardSm90

_ALIGNMENT = 1024  # bytes, of what is swizzled in shared memory
_VECTOR = 8  # elements of 16 bits that a thread stores at once
_ROWS = 16  # of the accumulators that a warp has


class Resident(FlashAttentionForwardSm90):
    """The library's kernel, whose blocks take tile after tile.

    The results of a tile have separate shared memory, so that the next tile's queries can be loaded meanwhile. Each
    warp stores its own rows: no warp waits for another one at the end of a tile.
    """

    @property
    def use_tma_O(self) -> bool:
        """False: each warp stores its rows, which are fewer than a TMA copy of the whole tile writes."""
        return False

    @use_tma_O.setter
    def use_tma_O(self, value: bool) -> None:
        """Ignores the library's choice."""

    def _get_shared_storage_cls(self) -> Any:
        """The library's storage, with the results after the queries, or in place of the weights."""
        queries, weights = cute.cosize(self.sQ_layout), 0
        results = cute.cosize(self.sO_layout)
        if const_expr(self.sP_layout is not None):
            weights = cute.cosize(self.sP_layout)
            assert weights == results, "results take the place of weights of the same shape"
            results = 0

        def room(elements: int) -> Any:
            return cute.struct.Align[cute.struct.MemRange[self.dtype, elements], _ALIGNMENT]

        def barriers(stages: int) -> Any:
            return cute.struct.MemRange[cutlass.Int64, 2 * stages]

        fields = {
            "mbar_ptr_Q": barriers(1),
            "mbar_ptr_K": barriers(self.num_stages),
            "mbar_ptr_V": barriers(self.num_stages),
            "sQ": room(queries + results),
            "sP": room(weights),
            "sV": room(cute.cosize(self.sV_layout)),
            "sK": room(cute.cosize(self.sK_layout)),
        }
        return cute.struct(type("Storage", (), {"__annotations__": fields}))

    @cute.jit
    def epilogue(
        self,
        acc_O: cute.Tensor,
        lse: cute.Tensor,
        mO: cute.Tensor,
        mLSE: Any,
        sO: cute.Tensor,
        seqlen: Any,
        gmem_tiled_copy_O: cute.TiledCopy,
        tma_atom_O: Any,
        tiled_mma: cute.TiledMma,
        tidx: Int32,
        m_block: Int32,
        head_idx: Int32,
        batch_idx: Int32,
    ) -> None:
        """Store a warp's rows: through shared memory, so that each row is written contiguously."""
        rounded = cute.make_fragment_like(acc_O, self.dtype)
        rounded.store(acc_O.load().to(self.dtype))
        staged = cute.make_tensor(sO.iterator + self.tile_m * self.tile_hdim, sO.layout)
        atom = utils.get_smem_store_atom(90, self.dtype)
        copy = cute.make_tiled_copy_C(atom, tiled_mma).get_slice(tidx)
        cute.copy(atom, copy.retile(rounded), copy.partition_D(staged))
        cute.arch.sync_warp()
        group = self.qhead_per_kvhead if const_expr(self.pack_gqa) else 1
        left = seqlen.seqlen_q * group - m_block * self.tile_m
        row = tidx // cute.arch.WARP_SIZE * _ROWS
        lane = cute.arch.lane_idx()
        out = seqlen.offset_batch_Q(mO, batch_idx, dim=3)[None, None, head_idx]
        self._store_rows(staged, out, row, lane, left, m_block)
        if const_expr(mLSE is not None):
            logs = seqlen.offset_batch_Q(mLSE, batch_idx, dim=2)[None, head_idx]
            if lane % 4 == 0:
                for i in cutlass.range_constexpr(cute.size(lse)):
                    tile_row = row + lane // 4 + i * 8
                    if tile_row < left:
                        logs[(self._place(m_block * self.tile_m + tile_row),)] = lse[i]
        cute.arch.sync_warp()  # all lanes have read the staged rows before the next tile overwrites them

    @cute.jit
    def _store_rows(
        self, staged: cute.Tensor, out: cute.Tensor, row: Int32, lane: Int32, left: Int32, m_block: Int32
    ) -> None:
        """The rows of a warp, a vector of each thread at a time."""
        wide = self.tile_hdimv // _VECTOR
        for i in cutlass.range_constexpr(_ROWS * wide // cute.arch.WARP_SIZE):
            vector = i * cute.arch.WARP_SIZE + lane
            tile_row, column = row + vector // wide, vector % wide
            if tile_row < left and (
                const_expr(not self.check_hdim_v_oob) or column * _VECTOR < cute.size(out, mode=[1])
            ):
                source = cute.local_tile(staged, (1, _VECTOR), (tile_row, column))
                values = cute.make_rmem_tensor((_VECTOR,), self.dtype)
                cute.autovec_copy(cute.make_tensor(source.iterator, cute.make_layout(_VECTOR)), values)
                start = cute.crd2idx((self._place(m_block * self.tile_m + tile_row), column * _VECTOR), out.layout)
                target = cute.make_tensor((out.iterator + start).align(16), cute.make_layout(_VECTOR))
                cute.autovec_copy(values, target)

    def _place(self, row: Int32) -> Any:
        """The coordinate of a row of a head's queries."""
        if const_expr(self.pack_gqa):
            return row % self.qhead_per_kvhead, row // self.qhead_per_kvhead
        return row


def kernel_class(stages: int, *, resident: bool) -> Any:
    """What the library calls in place of its class: with so many stages of keys and values."""

    def make(*args: Any, **options: Any) -> Any:
        kind = Resident if resident else FlashAttentionForwardSm90
        return kind(*args, **{**options, "num_stages": stages})

    return make
