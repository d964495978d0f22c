"""Special values: inputs in which NaN, infinity, zeros or denormal numbers stand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from precast.measure.checks.guarded import enclose, fill


def with_special(kind: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of tensors, those of a floating type with special values.

    NaN and infinity stand in three places of each, so that most of a result does not depend on them. Zeros and denormal
    numbers fill all of it: a division by a sum, say, must meet a sum of nothing else.

    >>> import torch
    >>> with_special("infinity", {"x": torch.ones(5), "n": torch.ones(2, dtype=torch.int32)})["x"].tolist()
    [inf, 1.0, -inf, 1.0, inf]
    """
    views = {name: view for buffer in enclose(tensors, pattern=0) for name, view in buffer.views.items()}
    for tensor in views.values():
        if tensor.dtype.is_floating_point and tensor.numel():
            _put(kind, tensor)
    return views


def _put(kind: str, tensor: Any) -> None:
    import torch

    if kind == "zero":
        fill(tensor, torch.zeros_like(tensor))
    elif kind == "denormal":
        smallest = torch.finfo(tensor.dtype).smallest_normal  # of which a quarter is a number of every type
        steps = torch.arange(tensor.numel(), device=tensor.device) % 7 - 3
        fill(tensor, (steps.double() * smallest / 4).view(tensor.shape).to(tensor.dtype))
    else:
        value = math.nan if kind == "nan" else math.inf
        if kind == "infinity" and not bool(
            torch.full((), value, device=tensor.device).to(tensor.dtype).double().isinf()
        ):
            return  # a type without infinity
        count = tensor.numel()
        for number, position in enumerate(sorted({0, count // 2, count - 1})):
            index = torch.unravel_index(torch.tensor(position), tensor.shape)
            tensor[tuple(int(i) for i in index)] = -value if number == 1 else value
