"""Guarded tensors: each argument of a launch inside a larger buffer, filled with a pattern that a stray write breaks.

The pattern is one byte, repeated. ``0xFF`` is NaN in every floating type, so a value that is read from outside a tensor
shows in what is computed from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_GUARD = {"cuda": 1 << 16, "cpu": 1 << 12}  # bytes before and behind: more than a block writes; less for a function
_PIECE = 1 << 28  # bytes that are looked at together
ALONE = "PYTORCH_NO_CUDA_MEMORY_CACHING"
"""If this variable is 1, torch requests the memory of each tensor from the driver."""
_VECTOR = 16
_ALIGN = 512  # what torch aligns its memory on a GPU to: where a tensor stands is kept modulo this


@dataclass(frozen=True, slots=True, eq=False)
class Guarded:
    """A buffer, and the tensors of one memory in it, from byte ``first`` to byte ``last``."""

    buffer: Any
    first: int
    last: int
    views: Mapping[str, Any]
    pattern: int

    def stray(self) -> str:
        """What was written outside the tensors, and how far from them; empty where nothing was."""
        name = " and ".join(self.views)
        names_written = []
        before = _positions(self.buffer[: self.first], self.pattern)
        if len(before):
            names_written.append(
                f"{_bytes(len(before))} before {name}, {self.first - int(before[-1])} from where it begins"
            )
        behind = _positions(self.buffer[self.last :], self.pattern)
        if len(behind):
            names_written.append(f"{_bytes(len(behind))} behind {name}, {int(behind[0]) + 1} from where it ends")
        between = self._between()
        if between:
            names_written.append(f"{_bytes(between)} between the rows of {name}")
        return f"wrote {', '.join(names_written)}" if names_written else ""

    def _between(self) -> int:
        """How many bytes of the tensors' memory that belong to no element were written."""
        import torch

        if any(view.numel() * view.element_size() == self.last - self.first for view in self.views.values()):
            return 0
        inside = self.buffer[self.first : self.last]
        outside = torch.ones_like(inside, dtype=torch.bool)
        for view in self.views.values():
            size = view.element_size()
            offset = view.data_ptr() - inside.data_ptr()
            lengths = (1 if stride == 0 else length for length, stride in zip(view.shape, view.stride(), strict=True))
            shape, strides = (*lengths, size), (*(stride * size for stride in view.stride()), 1)
            outside.as_strided(shape, strides, outside.storage_offset() + offset).fill_(False)
        pieces = zip(inside.split(_PIECE), outside.split(_PIECE), strict=True)  # whole, they might not fit beside it
        return sum(int(((written != self.pattern) & free).sum()) for written, free in pieces)


def enclose(
    tensors: Mapping[str, Any],
    *,
    pattern: int,
    empty: Sequence[str] = (),
    alignment: Mapping[str, int] | None = None,
    moved: bool = False,
) -> list[Guarded]:
    """Copies of tensors between guards, with the same strides; those that share memory share it again.

    Each is at an address that is aligned as the original's was; one that ``alignment`` names, alone in its memory,
    at an address that is aligned to so many bytes and no more. Those named in ``empty`` hold the pattern.
    With ``moved``, the original's alignment is that within its allocation.

    >>> import torch
    >>> (room,) = enclose({"x": torch.zeros(3)}, pattern=0xFF)
    >>> room.views["x"].tolist(), room.stray()
    ([0.0, 0.0, 0.0], '')
    >>> room.buffer[room.last] = 0
    >>> room.stray()
    'wrote 1 byte behind x, 1 from where it ends'
    """

    buffers = []
    for names in _groups(tensors):
        first = min(tensors[name].data_ptr() for name in names)
        last = max(end_of(tensors[name]) for name in names)
        some = tensors[names[0]]
        least = (alignment or {}).get(names[0], 0) if len(names) == 1 else 0
        like = first - some.untyped_storage().data_ptr() if moved else first
        buffer, offset = _buffer(last - first, (least or like), max(_ALIGN, 2 * least), some.device)
        buffer.fill_(pattern)
        views = {}
        for name in names:
            old = tensors[name]
            begin = offset + old.data_ptr() - first
            span = buffer[begin : begin + end_of(old) - old.data_ptr()].view(old.dtype)
            views[name] = span.as_strided(old.shape, old.stride(), span.storage_offset())
            if name not in empty:
                fill(views[name], old)
        buffers.append(Guarded(buffer, offset, offset + last - first, views, pattern))
    return buffers


def aligned_as_on_gpu(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors of the CPU, where memory of a GPU would have them: there each allocation is aligned to 512 bytes.

    >>> import torch
    >>> aligned_as_on_gpu({"x": torch.zeros(9)[1:]})["x"].data_ptr() % 512
    4
    """
    return {n: v for buffer in enclose(tensors, pattern=0, moved=True) for n, v in buffer.views.items()}


def _buffer(size: int, like: int, step: int, device: Any) -> tuple[Any, int]:
    """A buffer, and the place in it of so many bytes, at an address equal to ``like`` modulo ``step``.

    Guards stand on both sides. Where torch gives each tensor memory of its own, for a tool that sees what leaves it,
    nothing is behind: the tool sees no more than the ends of the memory. They are those of whole vectors, since
    ``memcheck`` takes an asynchronous copy of fewer bytes than a vector has for one of all of them.
    """
    import torch

    if device.type == "cuda" and os.environ.get(ALONE) == "1":
        buffer = torch.empty(like % step + size + -(like + size) % _VECTOR, dtype=torch.uint8, device=device)
        if buffer.data_ptr() % step == 0:
            return buffer, like % step
    guard = _GUARD.get(device.type, max(_GUARD.values()))
    buffer = torch.empty(size + 2 * guard + step, dtype=torch.uint8, device=device)
    return buffer, guard + (like - buffer.data_ptr() - guard) % step


def fill(view: Any, values: Any) -> None:
    """Copy values into a tensor whose elements may share memory, as after ``expand``."""
    for dim, stride in enumerate(view.stride()):
        if stride == 0 and view.shape[dim] > 1:
            view, values = view.narrow(dim, 0, 1), values.narrow(dim, 0, 1)
    view.copy_(values)


def _groups(tensors: Mapping[str, Any]) -> list[list[str]]:
    """The names of tensors, those together whose bytes overlap."""
    groups: list[list[str]] = []
    end = -1
    for name in sorted(tensors, key=lambda name: (tensors[name].data_ptr(), end_of(tensors[name]))):
        tensor = tensors[name]
        if tensor.numel() and groups and tensor.data_ptr() < end:
            groups[-1].append(name)
        else:
            groups.append([name])
        end = max(end, end_of(tensor))
    return groups


def end_of(tensor: Any) -> int:
    """The address behind the last element."""
    if tensor.numel() == 0:
        return int(tensor.data_ptr())
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.data_ptr() + (last + 1) * tensor.element_size())


def _positions(part: Any, pattern: int) -> Any:
    return (part != pattern).nonzero().flatten()


def _bytes(count: int) -> str:
    return f"{count} byte{'' if count == 1 else 's'}"
