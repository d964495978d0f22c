"""What a kernel is passed in place of its tensors: memory of several GPUs at one address, a part of a larger tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MULTICAST = 1 << 58
"""Added to the address of the first copy, it is the address of all in an emulation: nothing else is there."""


@dataclass(frozen=True, slots=True, eq=False)
class Multicast:
    """An address of multicast memory, as a number or a tensor: a kernel stores to the memory of all GPUs at once, and
    reads sums of what they have.

    Only an emulation has such memory on one machine.

    >>> import torch
    >>> every = Multicast(torch.zeros(2, 4), skipped=8)
    >>> every.count, every.step, tuple(every.shape), every.first - every.copies.data_ptr()
    (2, 16, (4,), -32)

    Parameters
    ----------
    copies
        The memory of all GPUs: a tensor whose first dimension is the GPU.
    skipped
        How many elements of each GPU's memory lie before those.
    """

    copies: Any
    skipped: int = 0

    @property
    def count(self) -> int:
        """How many GPUs there are."""
        return int(self.copies.shape[0])

    @property
    def step(self) -> int:
        """From one copy to the next, in bytes."""
        return int(self.copies.stride(0) * self.copies.element_size())

    @property
    def first(self) -> int:
        """Where the memory of the first GPU begins."""
        return int(self.copies.data_ptr() - self.skipped * self.copies.element_size())

    @property
    def shape(self) -> Any:
        """The shape of a copy."""
        return self.copies.shape[1:]

    @property
    def dtype(self) -> Any:
        """The dtype of a copy."""
        return self.copies.dtype

    def data_ptr(self) -> int:
        """The address that is passed."""
        return MULTICAST + self.first

    def dim(self) -> int:
        """The rank of a copy."""
        return int(self.copies.dim()) - 1

    def stride(self) -> Any:
        """The strides of a copy."""
        return self.copies.stride()[1:]


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """A contiguous tensor argument of which only a part is there: the kernel must not touch the rest.

    It lets a small problem have a tensor whose size was compiled in.

    >>> import torch
    >>> part = torch.zeros(8)
    >>> whole = Window(part, (1 << 40,), skipped=1 << 20)
    >>> tuple(whole.shape), whole.stride(), part.data_ptr() - whole.data_ptr()
    ((1099511627776,), (1,), 4194304)

    Parameters
    ----------
    tensor
        What is there, with any strides.
    shape
        The shape that is passed.
    skipped
        How many elements lie before the tensor.
    """

    tensor: Any
    shape: tuple[int, ...]
    skipped: int = 0

    @property
    def dtype(self) -> Any:
        """The dtype of the tensor."""
        return self.tensor.dtype

    def data_ptr(self) -> int:
        """The address that is passed."""
        return int(self.tensor.data_ptr() - self.skipped * self.tensor.element_size())

    def dim(self) -> int:
        """The rank that is passed."""
        return len(self.shape)

    def stride(self) -> tuple[int, ...]:
        """The strides that are passed."""
        strides = [1]
        for size in self.shape[:0:-1]:
            strides.insert(0, strides[0] * size)
        return tuple(strides)
