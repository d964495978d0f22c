"""torch's fake tensors, which have no memory, on machines without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


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
    ...     tensor = torch.empty(4, 6, device="cuda")
    ...     tensor.device, tensor[1:, ::2].stride(), tensor[2].storage_offset()
    (device(type='cuda', index=0), (6, 2), 12)
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    with without_gpu(), FakeTensorMode(), _slices():
        yield


def _slices() -> AbstractContextManager[object]:
    """Slices of tensors of device ``cuda``: indexing requests it from torch, and a torch without CUDA has none."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Slices(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.Tensor.__getitem__ and args[0].is_cuda and _views(args[1]):
                whole = args[0]
                shape = torch.empty_strided(whole.shape, whole.stride(), dtype=whole.dtype, device="meta")[args[1]]
                offset = whole.storage_offset() + shape.storage_offset()
                return whole.as_strided(shape.shape, shape.stride(), offset)
            return function(*args, **(kwargs or {}))

    return Slices()


def _views(index: Any) -> bool:
    """Whether an index gives a view: one of tensors or lists of numbers copies."""
    items = index if isinstance(index, tuple) else (index,)
    return all(item is None or item is ... or type(item) in (int, slice) for item in items)
