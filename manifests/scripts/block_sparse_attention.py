"""Ask FlashAttention-4 for attention over a list of blocks, of 256 queries by 128 keys."""

from __future__ import annotations

BATCH, HEADS, TOKENS = 2, 16, 4096
BLOCK = (256, 128)


def main() -> None:
    """One call, on tensors of a GPU."""
    import torch
    from flash_attn.cute import flash_attn_func
    from flash_attn.cute.block_sparsity import BlockSparseTensorsTorch

    q, k, v = (torch.empty(BATCH, TOKENS, HEADS, 128, dtype=torch.bfloat16, device="cuda") for _ in range(3))
    rows, columns = (TOKENS // size for size in BLOCK)
    counts = torch.zeros(BATCH, HEADS, rows, dtype=torch.int32, device="cuda")
    indices = torch.zeros(BATCH, HEADS, rows, columns, dtype=torch.int32, device="cuda")
    blocks = BlockSparseTensorsTorch(counts, indices, counts.clone(), indices.clone(), block_size=BLOCK)
    flash_attn_func(q, k, v, block_sparse_tensors=blocks)


if __name__ == "__main__":
    main()
