"""Accumulators: sums in float32 that the parts of ``attention_bwd`` hand on, a block of rows behind another.

Within a block they are in the order of the registers that hold them: four neighbouring numbers to a thread.
"""

from __future__ import annotations

from typing import Any, Literal

Order = Literal["wgmma", "tcgen05", "pair"]
"""That of sm_90a, that of sm_100a, and that of a pair of thread blocks of sm_100a that share a product."""
_ROWS = 64  # of a warp group of sm_90a, and of one thread block of a pair


def places(order: Order, rows: int, width: int) -> Any:
    """Where each number of a block ``[rows, width]`` is.

    On sm_90a the four are two columns of two rows, eight apart; on sm_100a, four columns. Each block of a pair has half
    of the rows, with both halves of their columns in turn.

    >>> places("tcgen05", 128, 64)[1, :6].tolist()
    [4, 5, 6, 7, 516, 517]
    >>> places("wgmma", 64, 64)[8, :4].tolist(), places("wgmma", 64, 64)[0, :4].tolist()
    ([2, 3, 6, 7], [0, 1, 4, 5])
    >>> places("pair", 128, 64)[1, 30:34].tolist(), places("pair", 128, 64)[64, :2].tolist()
    ([3590, 3591, 260, 261], [4096, 4097])
    """
    import torch

    row, column = torch.arange(rows).unsqueeze(1), torch.arange(width).unsqueeze(0)
    if order == "tcgen05":
        return (column // 4 * rows + row) * 4 + column % 4
    begin = row // _ROWS * _ROWS * width
    if order == "pair":
        half, near = column // (width // 2), column % (width // 2)
        return begin + ((near // 4 * 2 + half) * _ROWS + row % _ROWS) * 4 + column % 4
    thread = row % _ROWS // 16 * 32 + row % 8 * 4 + column % 8 // 2
    return begin + (column // 8 * 128 + thread) * 4 + row % 16 // 8 * 2 + column % 2


def packed(values: Any, order: Order, block: int) -> Any:
    """Rows ``[heads, rows, width]``, of whole blocks, as an accumulator ``[heads, rows * width]``."""
    import torch

    heads, rows, width = values.shape
    blocks = values.reshape(heads, rows // block, block * width)
    accumulator = torch.empty_like(blocks)
    accumulator[..., places(order, block, width).flatten().to(values.device)] = blocks
    return accumulator.flatten(1)


def unpacked(accumulator: Any, order: Order, block: int, width: int) -> Any:
    """The rows of an accumulator: what ``packed`` was given.

    >>> import torch
    >>> x = torch.randn(2, 256, 64)
    >>> torch.equal(unpacked(packed(x, "wgmma", 128), "wgmma", 128, 64), x)
    True
    """
    heads = len(accumulator)
    blocks = accumulator.reshape(heads, -1, block * width)
    return blocks[..., places(order, block, width).flatten().to(accumulator.device)].reshape(heads, -1, width)
