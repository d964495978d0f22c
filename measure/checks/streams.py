"""Streams: other work on the GPU, and a stream of the caller's own whose inputs come late."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

_WAIT = 4_000_000  # clock cycles: some 2 ms, many times what a launch takes on the host once its code is loaded
_SIDE, _PRODUCTS = 2048, 10  # products of matrices, some 3 ms on a large GPU


@contextlib.contextmanager
def other_work(device: Any) -> Iterator[None]:
    """Keep the GPU busy on a stream of its own while the block runs: products of matrices, through most of its SMs."""
    import torch

    matrix = torch.full((_SIDE, _SIDE), 1 / _SIDE, device=device)
    busy = torch.cuda.Stream(device)
    torch.cuda.synchronize(device)
    with torch.cuda.stream(busy):
        product = matrix  # which stays: its memory is not given to the block
        for _ in range(_PRODUCTS):
            product = product @ matrix
    yield
    torch.cuda.synchronize(device)


@contextlib.contextmanager
def second_stream(device: Any) -> Iterator[None]:
    """Make a stream that is busy for a while the current one of the block, and wait for it behind the block.

    Work that the block puts on any other stream is done before that of this stream begins.
    """
    import torch

    torch.cuda.synchronize(device)
    with torch.cuda.stream(torch.cuda.Stream(device)):
        torch.cuda._sleep(_WAIT)
        yield
    torch.cuda.synchronize(device)
