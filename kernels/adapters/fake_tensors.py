"""torch's fake tensors, which have no memory, on machines without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

IMPORTED = "torch._dynamo"  # by the first of them, which takes a second: for the ``imports`` of a declaration


@contextmanager
def without_gpu() -> Iterator[None]:
    """Let fake tensors of device ``cuda`` be made where there is no GPU.

    A torch that has CUDA makes a tensor on the GPU before the first of them; only autograd's own threads ask for that.
    """
    from torch._subclasses import fake_tensor

    on_gpu, fake_tensor.init_gpu_context = fake_tensor.init_gpu_context, lambda *device: None
    try:
        yield
    finally:
        fake_tensor.init_gpu_context = on_gpu


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Inside, every tensor is a fake one.

    >>> import torch
    >>> with fake_tensors():
    ...     torch.empty(2, device="cuda").device
    device(type='cuda', index=0)
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with without_gpu(), FakeTensorMode():
        yield
