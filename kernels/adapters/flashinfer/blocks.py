"""Block-scaled numbers: a few bits for each element, a scale for each block of a row. References, and test data.

The hardware multiplies by approximate reciprocals, so that a value halfway between two codes may be rounded either way.
The test values keep away from every such edge, of codes and of scales, so that their bytes are exact.
"""

from __future__ import annotations

import itertools
from typing import Any

_CODES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of float4_e2m1fn; the fourth bit is the sign
_MIDDLES = tuple((a + b) / 2 for a, b in itertools.pairwise(_CODES))
# Scales at least 2 per cent from a rounding edge, and how far values go towards the edges around their codes.
_SURE = {"float8_e4m3fn": ((1.125, 1.25, 1.375, 1.5), 0.7), "float8_e8m0fnu": ((0.96,), 0.5)}
_FP8_MOST = 448.0


def encode_fp4(values: Any) -> Any:
    """The nearest float4_e2m1fn of every value, two to a byte, the first in the low half.

    >>> import torch
    >>> encode_fp4(torch.tensor([[1.0, -6.0]])).tolist()
    [[242]]
    """
    import torch

    middles = torch.tensor(_MIDDLES, dtype=values.dtype, device=values.device)
    codes = torch.bucketize(values.abs().contiguous(), middles).to(torch.uint8)
    codes |= (values < 0).to(torch.uint8) << 3
    return codes[..., 0::2] | codes[..., 1::2] << 4


def decode_fp4(packed: Any) -> Any:
    """The values of packed float4_e2m1fn, in float64.

    >>> import torch
    >>> decode_fp4(torch.tensor([[242]], dtype=torch.uint8)).tolist()
    [[1.0, -6.0]]
    """
    import torch

    table = torch.tensor([*_CODES, *(-c for c in _CODES)], dtype=torch.float64, device=packed.device)
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
    return table[codes.long()]


def quantize_fp4(values: Any, *, block: int, scale_dtype: str, global_scale: float) -> tuple[Any, Any]:
    """Packed codes, and a scale byte for each block: e4m3 of ``global_scale * max / 6``, or a power of two above it."""
    import torch

    blocks = values.double().unflatten(-1, (-1, block))
    scales_exact = blocks.abs().amax(dim=-1) / 6.0
    if scale_dtype == "float8_e8m0fnu":
        exponents = _exponents(scales_exact)
        codes = encode_fp4((blocks / 2.0 ** exponents.unsqueeze(-1)).flatten(-2))
        return codes, (exponents + 127).to(torch.uint8)
    scales = (scales_exact * global_scale).clamp(max=_FP8_MOST).float().to(torch.float8_e4m3fn)
    codes = encode_fp4((blocks * global_scale / scales.double().unsqueeze(-1)).flatten(-2))
    return codes, scales.view(torch.uint8)


def quantize_mxfp8(values: Any, *, block: int = 32) -> tuple[Any, Any]:
    """Bytes of float8_e4m3fn, and one power-of-two scale for each block: the least that keeps it within 448."""
    import torch

    blocks = values.double().unflatten(-1, (-1, block))
    exponents = _exponents(blocks.abs().amax(dim=-1) / _FP8_MOST)
    codes = (blocks / 2.0 ** exponents.unsqueeze(-1)).flatten(-2).float().to(torch.float8_e4m3fn)
    return codes.view(torch.uint8), (exponents + 127).to(torch.uint8)


def _exponents(values: Any) -> Any:
    return values.log2().ceil()


def swizzled(scales: Any) -> Any:
    """Scales ``[rows, blocks]`` as tensor cores read them: flat, in tiles of 128 rows by 4, each of 32 by 4 by 4; what
    pads the last tiles is zero.

    >>> import torch
    >>> swizzled(torch.ones(1, 1, dtype=torch.uint8)).numel()
    512
    """
    import torch

    rows, columns = scales.shape
    tiles, groups = -(-rows // 128), -(-columns // 4)
    padded = torch.zeros(tiles * 128, groups * 4, dtype=scales.dtype, device=scales.device)
    padded[:rows, :columns] = scales
    return padded.view(tiles, 4, 32, groups, 4).permute(0, 3, 2, 1, 4).reshape(-1)


def unswizzled(flat: Any, rows: int, columns: int) -> Any:
    """The inverse, without the padding."""
    tiles, groups = -(-rows // 128), -(-columns // 4)
    ordered = flat.view(tiles, groups, 32, 4, 4).permute(0, 3, 2, 1, 4)
    return ordered.reshape(tiles * 128, groups * 4)[:rows, :columns]


def fp4_values(rows: int, columns: int, block: int, scale_dtype: str, *, device: Any, seed: int) -> Any:
    """Values in float64 away from the rounding edges of codes, in blocks away from those of scales."""
    import torch

    sure, kept = _SURE[scale_dtype]

    draw = torch.Generator(device="cpu").manual_seed(seed)
    index = torch.randint(0, 8, (rows, columns), generator=draw)
    codes = torch.tensor(_CODES, dtype=torch.float64)[index]
    edges = torch.tensor((0.0, *_MIDDLES, 6.0), dtype=torch.float64)
    reach = torch.minimum(codes - edges[index], edges[index + 1] - codes)
    wobble = (2 * torch.rand(rows, columns, generator=draw, dtype=torch.float64) - 1) * kept * reach
    values = codes + wobble
    values[:, ::block] = 6.0
    signs = torch.randint(0, 2, (rows, columns), generator=draw) * 2 - 1
    values = torch.where(index == 0, values, values * signs)
    scales = torch.tensor(sure, dtype=torch.float64)[
        torch.randint(0, len(sure), (rows, columns // block), generator=draw)
    ]
    scales *= 2.0 ** torch.randint(0, 2, scales.shape, generator=draw)
    return (values * scales.repeat_interleave(block, dim=1)).to(device)


def mxfp8_values(rows: int, columns: int, *, device: Any, seed: int) -> Any:
    """Values in float64, each near one that float8_e4m3fn has times a power of two; the largest of a block is 320."""
    import torch

    draw = torch.Generator(device="cpu").manual_seed(seed)
    raw = torch.randn(rows, columns, generator=draw) * 60
    exact = raw.clamp(-288, 288).to(torch.float8_e4m3fn).double()
    exact[:, ::32] = 320.0
    wobble = 1 + (2 * torch.rand(rows, columns, generator=draw, dtype=torch.float64) - 1) * 2.0**-6
    exponents = torch.randint(-8, 8, (rows, columns // 32), generator=draw).double()
    return (exact * wobble * 2.0 ** exponents.repeat_interleave(32, dim=1)).to(device)
