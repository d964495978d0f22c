"""Rows stored as float8 with scales: what kernels and references agree on."""

from __future__ import annotations

from typing import Any

from precast.kernels.authoring import tensors

LARGEST = 448.0
"""The largest number of float8_e4m3fn."""

BLOCK = 128
"""How many columns share a scale, as FlashInfer, DeepGEMM and TensorRT-LLM have it."""

LEAST = 1e-10 / LARGEST
"""The least scale: values below 1e-10 are taken for zeros, as vLLM and FlashInfer do, so that zeros have a scale."""


def quantized(x: Any, block: int | None) -> tuple[Any, Any]:
    """Values over their scales, not rounded, and the scales: one for each row, or for each block of columns and row.

    >>> import torch
    >>> out, scale = quantized(torch.tensor([[448.0, -896.0]], dtype=torch.float64), None)
    >>> out.tolist(), scale.tolist()
    ([[224.0, -448.0]], [2.0])
    """
    rows, columns = x.shape
    length = block or columns
    parts = x.view(rows, columns // length, length)
    scale = (parts.abs().amax(dim=-1) / LARGEST).clamp(min=LEAST)
    out = (parts / scale.unsqueeze(-1)).reshape(rows, columns)
    return out, scale[:, 0] if block is None else scale.T


def dequantized(x: Any, scale: Any) -> Any:
    """What stands for stored values, in float64.

    >>> import torch
    >>> x, scale = torch.full((1, 256), 2.0), torch.tensor([[0.5], [3.0]])
    >>> dequantized(x, scale)[0, ::128].tolist()
    [1.0, 6.0]
    """
    by_row = scale.double().unsqueeze(0) if scale.dim() == 1 else scale.double()
    parts = x.double().view(len(x), len(by_row), x.shape[1] // len(by_row))
    return (parts * by_row.T.unsqueeze(-1)).reshape(x.shape)


def scales(rows: int, width: int, block: int | None, *, device: Any, padding: int = 0) -> Any:
    """Memory for scales: ``[rows]``, or ``[width / block, rows]`` with padding between the blocks of columns.

    >>> scales(3, 256, 128, device="cpu", padding=1).stride()
    (4, 1)
    """
    if block is None:
        return tensors.empty((rows,), "float32", device=device)
    return tensors.empty((width // block, rows), "float32", device=device, row_stride=rows + padding)
