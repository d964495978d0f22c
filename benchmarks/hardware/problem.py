"""One small problem of a kernel, the same on every machine: which one, its arguments, and copies of them."""

from __future__ import annotations

import copy
import hashlib
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.declare import Declaration, Problem
from precast.loader.contract.format.artifact import Artifact

ELEMENTS, WORK, SIZES = 1 << 19, 6e7, 1 << 24
_ALIGN = 512
FILLED = 0xA5  # what outputs hold before a launch: the same bytes on both machines


@dataclass(frozen=True, slots=True)
class Chosen:
    """A problem, and all arguments of the call on the CPU."""

    problem: dict[str, int]
    values: Any
    outputs: tuple[str, ...]


def choose(declaration: Declaration, artifact: Artifact) -> Chosen | None:
    """The largest declared problem within the limits, else the smallest that writes something; None if none does."""
    assert declaration.problems
    config = artifact.config
    problems = sorted((dict(p) for p in declaration.problems(config)), key=lambda p: _work(declaration, config, p))
    best: Chosen | None = None
    for problem in problems:
        if best is not None and not _small(declaration, config, problem):
            break
        made = _made(declaration, config, problem)
        if not any(made.values[name].numel() for name in made.outputs):
            continue
        if best is not None and sum(t.numel() for t in tensors(made.values)) > ELEMENTS:
            break
        best = made
    return best


def _made(declaration: Declaration, config: Any, problem: Problem) -> Chosen:
    import torch

    assert declaration.inputs
    seed = zlib.crc32(repr(sorted(problem.items())).encode())
    values = declaration.inputs(config, problem, device="cpu", seed=seed)
    outputs = tuple(name for name in declaration.outputs if isinstance(values.get(name), torch.Tensor))
    empty = {name for name in outputs if name not in declaration.in_place}
    read = {t.untyped_storage().data_ptr() for t in tensors({n: v for n, v in values.items() if n not in empty})}
    for name in empty:
        storage = values[name].untyped_storage()
        if storage.data_ptr() not in read:
            torch.tensor([], dtype=torch.uint8).set_(storage).fill_(FILLED)
    return Chosen(dict(problem), values, outputs)


def _work(declaration: Declaration, config: Any, problem: Problem) -> float:
    if declaration.cost is None:
        return math.prod(float(max(1, size)) for size in problem.values())
    cost = declaration.cost(config, problem)
    return float(cost.flops + cost.bytes)


def _small(declaration: Declaration, config: Any, problem: Problem) -> bool:
    return _work(declaration, config, problem) <= (SIZES if declaration.cost is None else WORK)


def tensors(values: Mapping[str, Any]) -> Iterator[Any]:
    """The tensors of a call, also those in tuples."""
    for value in values.values():
        yield from (v for v in (value if isinstance(value, (tuple, list)) else (value,)) if hasattr(v, "data_ptr"))


def on_gpu(values: Any) -> Any:
    """The arguments with their memory on the GPU: tensors that share memory share it there, with their strides."""
    return _moved(values, lambda memory: memory.cuda())


def aligned(values: Any) -> Any:
    """The arguments with their memory as torch would have it on a GPU: there each allocation is aligned to 512 bytes.

    >>> import torch
    >>> moved = aligned({"x": torch.zeros(9)[1:]})
    >>> moved["x"].data_ptr() % 512, moved["x"].tolist() == [0.0] * 8
    (4, True)
    """
    return _moved(values, _aligned)


def _aligned(memory: Any) -> Any:
    import numpy as np
    import torch

    room = np.zeros(memory.numel() + _ALIGN, np.uint8)
    begin = -room.ctypes.data % _ALIGN
    moved = torch.from_numpy(room[begin : begin + memory.numel()])
    moved.copy_(memory)
    return moved


def _moved(values: Any, move: Callable[[Any], Any]) -> Any:
    import torch

    storages: dict[int, Any] = {}

    def moved(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            items = [moved(v) for v in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        if storage.data_ptr() not in storages:
            memory = torch.tensor([], dtype=torch.uint8).set_(storage)
            storages[storage.data_ptr()] = move(memory).untyped_storage()
        there = storages[storage.data_ptr()]
        empty = torch.tensor([], dtype=value.dtype, device=there.device)
        return empty.set_(there, value.storage_offset(), value.shape, value.stride())

    copied = copy.copy(values)
    copied.update({name: moved(value) for name, value in values.items()})
    return copied


def raw(tensor: Any) -> bytes:
    """The elements of a tensor, row by row."""
    import torch

    plain = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    dense = tensor.detach().view(plain).contiguous().cpu().reshape(-1)
    return bytes(dense.view(torch.uint8).numpy().tobytes())


def digest(data: bytes) -> str:
    """The beginning of a SHA-256."""
    return hashlib.sha256(data).hexdigest()[:20]
