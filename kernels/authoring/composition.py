"""Composition: what an author states about ops that are launched together, and about the parts of one function.

``Ranks`` is for ops that several GPUs launch together, ``Part`` for one object of a function that compiles several, and
``Multicast`` and ``Window`` for memory that is passed in place of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.loader.contract.format.config import Config

Exchanged = Callable[[Config, int, Sequence[Mapping[str, Any]]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """How many ranks launch an op together, and what each of them is passed that depends on the others.

    ``inputs`` of their declaration makes what one rank has of its own, once for each rank; ``reference`` gets
    a list for each argument, with a value for each rank, and returns such lists.

    >>> def exchanged(config: Config, rank: int, owned: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ...     return {"rank": rank, "peers": addresses(owned, "x")}
    >>> Ranks(count=lambda config: config["world"], exchanged=exchanged).count({"world": 2})
    2

    Parameters
    ----------
    count
        The number of ranks of a config.
    exchanged
        The arguments of a rank beside its own, from what all ranks own: tables of addresses, its number.
    """

    count: Callable[[Config], int]
    exchanged: Exchanged


def addresses(owned: Sequence[Mapping[str, Any]], name: str) -> Any:
    """A table of where each rank has one of its tensors, on their device, as int64.

    >>> import torch
    >>> x = torch.zeros(3)
    >>> addresses([{"x": x}, {"x": x}], "x").tolist() == [x.data_ptr()] * 2
    True
    """
    import torch

    tensors = [arguments[name] for arguments in owned]
    return torch.tensor([t.data_ptr() for t in tensors], dtype=torch.int64, device=tensors[0].device)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What is declared of one part, as of a kernel of its own.

    A function of a part's name, a config and a target makes it, since the parts of one launch meet in memory whose
    order is theirs, and may be another on another target.

    >>> half = Part(
    ...     problems=[{"n": 4}],
    ...     inputs=lambda config, problem, *, device, seed: {"x": [1.0] * problem["n"], "out": [0.0] * problem["n"]},
    ...     outputs=("out",),
    ...     reference=lambda config, inputs: {"out": [x / 2 for x in inputs["x"]]},
    ... )
    >>> half.reference({}, half.inputs({}, {"n": 2}, device="cpu", seed=0))
    {'out': [0.5, 0.5]}
    """

    problems: Sequence[Mapping[str, int]]
    inputs: Callable[..., dict[str, Any]]
    outputs: tuple[str, ...]
    reference: Callable[[Config, Mapping[str, Any]], dict[str, Any]]
    in_place: tuple[str, ...] = ()
    workspace: tuple[str, ...] = ()
    tolerance: Callable[[Config], Any] | None = None
    special_values: tuple[str, ...] = ()
    deterministic: bool = True
    passes: Callable[[Config, Mapping[str, Any]], Any] | None = None


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
