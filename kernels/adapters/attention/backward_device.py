"""FlashAttention-4's backward pass for Blackwell, which waits for its last stores."""

from __future__ import annotations

from typing import Any

import cutlass.cute as cute
from flash_attn.cute.flash_bwd_sm100 import FlashAttentionBackwardSm100


class Finished(FlashAttentionBackwardSm100):
    """The library's kernel. Behind the last store of ``dk`` and of ``dv`` it commits no group and waits for none, so
    that a block may end while the store still reads its shared memory."""

    def epilogue_dK_or_dV_tma(self, *args: Any, **options: Any) -> Any:
        """Store the gradients of a block; the thread that started a copy waits until it has read them."""
        state = super().epilogue_dK_or_dV_tma(*args, **options)
        cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0, read=True)
        return state
