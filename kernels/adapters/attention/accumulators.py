"""Accumulators: sums in float32 that the parts of ``attention_bwd`` hand on, a block of rows behind another.

Within a block they are in the order of the registers that hold them: four neighbouring numbers to a thread.
"""

from __future__ import annotations

from typing import Any

_ROWS = 64  # of a warp group of sm_90a


def order(major: int, rows: int, width: int) -> Any:
    """Where each number of a block ``[rows, width]`` is.

    On sm_90a the four are two columns of two rows, eight apart; on sm_100a, four columns.

    >>> order(10, 128, 64)[1, :6].tolist()
    [4, 5, 6, 7, 516, 517]
    >>> order(9, 64, 64)[8, :4].tolist(), order(9, 64, 64)[0, :4].tolist()
    ([2, 3, 6, 7], [0, 1, 4, 5])
    """
    import torch

    row, column = torch.arange(rows).unsqueeze(1), torch.arange(width).unsqueeze(0)
    if major != 9:
        return (column // 4 * rows + row) * 4 + column % 4
    thread = row % _ROWS // 16 * 32 + row % 8 * 4 + column % 8 // 2
    return row // _ROWS * _ROWS * width + (column // 8 * 128 + thread) * 4 + row % 16 // 8 * 2 + column % 2


def packed(values: Any, major: int, block: int) -> Any:
    """Rows ``[heads, rows, width]``, of whole blocks, as an accumulator ``[heads, rows * width]``."""
    import torch

    heads, rows, width = values.shape
    blocks = values.reshape(heads, rows // block, block * width)
    accumulator = torch.empty_like(blocks)
    accumulator[..., order(major, block, width).flatten().to(values.device)] = blocks
    return accumulator.flatten(1)


def unpacked(accumulator: Any, major: int, block: int, width: int) -> Any:
    """The rows of an accumulator: what ``packed`` was given.

    >>> import torch
    >>> x = torch.randn(2, 256, 64)
    >>> torch.equal(unpacked(packed(x, 9, 128), 9, 128, 64), x)
    True
    """
    heads = len(accumulator)
    blocks = accumulator.reshape(heads, -1, block * width)
    return blocks[..., order(major, block, width).flatten().to(accumulator.device)].reshape(heads, -1, width)
