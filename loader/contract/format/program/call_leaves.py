"""The leaves of a call: what the expressions of a host program are made of."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from precast.loader.contract.format.program.expression import wrapped
from precast.loader.contract.format.signature import Signature

_REAL = {"float16": "e", "float32": "f", "float64": "d"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTensor:
    """A tensor that is an address and a layout only, as rehearsals and emulations pass it."""

    data: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: tuple[int, int]


def leaves_of(signature: Signature, values: Sequence[Any]) -> dict[str, int]:
    """The leaves of a call whose arguments fit the signature.

    >>> from precast.loader.contract.format.signature import Argument
    >>> x = Argument(name="x", kind="tensor", dtype="float32", shape=("n", 4))
    >>> tensor = DrawnTensor(data=64, shape=(3, 4), strides=(4, 1), dtype="float32", device=(2, 0))
    >>> leaves_of(Signature(arguments=(x,)), [tensor])["x.span"]
    12
    """
    leaves: dict[str, int] = {}
    for argument, value in zip(signature.passed, values, strict=True):
        name = argument.name
        if isinstance(value, DrawnTensor):
            leaves |= {f"{name}.{leaf}": number for leaf, number in _of_tensor(value)}
        elif argument.dtype in _REAL:
            leaves[f"{name}.bits"] = wrapped(int.from_bytes(struct.pack(f"<{_REAL[argument.dtype]}", value), "little"))
        elif value is not None:
            leaves[name] = int(value)
    return leaves


def _of_tensor(tensor: DrawnTensor) -> Iterator[tuple[str, int]]:
    yield "data", wrapped(tensor.data)
    yield "span", wrapped(1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True)))
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.strides, strict=True)):
        yield f"shape[{axis}]", size
        yield f"strides[{axis}]", stride
