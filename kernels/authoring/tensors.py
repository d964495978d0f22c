"""Tensors to verify and bench kernels with. Torch is imported when one is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from precast.kernels.authoring.dtypes import to_torch


def normal(shape: tuple[int, ...], dtype: str, *, device: Any, seed: int, row_stride: int | None = None) -> Any:
    """Normally distributed values; the rows of a matrix are ``row_stride`` elements apart.

    >>> normal((2, 4), "bfloat16", device="cpu", seed=0, row_stride=8).stride()
    (8, 1)
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(seed)
    values = torch.randn(shape, generator=generator, dtype=torch.float32, device=device)
    result = empty(shape, dtype, device=device, row_stride=row_stride)
    result.copy_(values)
    return result


def empty(shape: tuple[int, ...], dtype: str, *, device: Any, row_stride: int | None = None) -> Any:
    """Uninitialised memory, in the same layouts as ``normal``.

    >>> empty((2, 4), "float16", device="cpu").shape
    torch.Size([2, 4])
    """
    import torch

    if row_stride is None:
        return torch.empty(shape, dtype=to_torch(dtype), device=device)
    rows, columns = shape
    return torch.empty((rows, row_stride), dtype=to_torch(dtype), device=device)[:, :columns]


def multiprocessors(device: Any) -> int:
    """How many multiprocessors the GPU has; on the CPU, as many as the one that is emulated.

    >>> with emulated_multiprocessors(148):
    ...     multiprocessors("cpu")
    148
    """
    import torch

    if torch.device(device).type == "cuda":
        return int(torch.cuda.get_device_properties(device).multi_processor_count)
    return _emulated.get()


@contextmanager
def emulated_multiprocessors(count: int) -> Iterator[None]:
    """Let ``multiprocessors`` answer this on the CPU while the block runs."""
    before = _emulated.set(count)
    try:
        yield
    finally:
        _emulated.reset(before)


_emulated = ContextVar("emulated multiprocessors", default=1)
