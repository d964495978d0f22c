"""Drawn calls: arguments that a signature allows, with sizes from nothing to more than any GPU holds."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from precast.loader.contract.abi.dlpack import DEVICES
from precast.loader.contract.abi.tvm_ffi_abi import limits
from precast.loader.contract.format.program.call_leaves import DrawnTensor
from precast.loader.contract.format.signature import Argument, Dim, Signature

TAME = (1 << 31) - 1  # as many elements as a tensor has in a tame call
LARGEST, _FARTHEST = 1 << 34, 1 << 37  # the largest extent of a shape, and the largest stride
_ADDRESSABLE = 1 << 46
_AROUND = range(-20, 21)
_EMPTY = 0.03  # how often a size may be 0


def is_tame(arguments: Iterable[Any]) -> bool:
    """Whether no tensor has more than ``TAME`` elements, an extent of 0 counted as 1."""
    return all(math.prod(max(1, n) for n in a.shape) <= TAME for a in arguments if isinstance(a, DrawnTensor))


class Draw:
    """A source of calls of one kernel. The same seed gives the same calls.

    ``tame`` calls have tensors of at most ``TAME`` elements. ``near`` are numbers around which sizes are drawn more
    often, and ``spans`` the same for the spans of tensors: the constants of a program, where it may go wrong.
    """

    def __init__(
        self,
        signature: Signature,
        seed: str,
        *,
        tame: bool,
        near: Sequence[int] = (),
        spans: Sequence[tuple[str, int]] = (),
        most: int = LARGEST,
    ) -> None:
        self._signature, self._random = signature, random.Random(seed)
        self._tame, self._near, self._spans, self._most = tame, near, spans, most
        shapes = {d for a in signature.passed for d in a.shape if isinstance(d, str)}
        self._strides = {d for a in signature.passed for d in a.strides or () if isinstance(d, str)} - shapes

    def call(self) -> list[Any]:
        """The arguments of one call."""
        sizes = {name: self._size(name) for name in self._signature.symbols}
        if self._tame:
            self._shrink(sizes)
            self._gather(sizes)
        if self._spans and self._random.random() < 0.5:
            self._stretch(sizes, *self._random.choice(self._spans))
        return [self._argument(argument, position, sizes) for position, argument in enumerate(self._signature.passed)]

    def _size(self, name: str) -> int:
        symbol, draw = self._signature.symbols[name], self._random
        most = min(limits(symbol.dtype)[1], _FARTHEST if name in self._strides else self._most)
        if draw.random() < _EMPTY:
            return 0
        choices = [1, 1 + draw.randrange(4), draw.randrange(300), draw.randrange(min(most, 9000)), draw.randrange(most)]
        choices += [1 << draw.randrange(most.bit_length())]
        if self._near:
            times = (1, 2, 3, draw.randrange(1, 70))
            choices += [draw.choice(self._near) * n + draw.choice((0, 0, *_AROUND)) for n in times]
        value = max(draw.choice(choices) + draw.randrange(-1, 2), 1)
        return min(-(-value // symbol.divisibility), most // symbol.divisibility) * symbol.divisibility

    def _shrink(self, sizes: dict[str, int]) -> None:
        """Halve the largest extents until every tensor is tame."""
        for argument in self._signature.passed:
            if argument.kind != "tensor":
                continue
            while math.prod(max(1, _extent(d, sizes)) for d in argument.shape) > TAME:
                largest = max((d for d in argument.shape if isinstance(d, str)), key=lambda d: sizes[d], default="")
                if not sizes.get(largest):
                    break  # what is known of its shape is too much already
                step = self._signature.symbols[largest].divisibility
                sizes[largest] = sizes[largest] // 2 // step * step

    def _gather(self, sizes: dict[str, int]) -> None:
        """Make strides smaller until every tensor lies within what a GPU can address."""
        for argument in self._signature.passed:
            for extent, stride in zip(argument.shape, argument.strides or (), strict=False):
                while stride in self._strides and (_extent(extent, sizes) - 1) * _extent(stride, sizes) > _ADDRESSABLE:
                    step = self._signature.symbols[str(stride)].divisibility
                    sizes[str(stride)] = sizes[str(stride)] // 2 // step * step

    def _stretch(self, sizes: dict[str, int], name: str, span: int) -> None:
        """Set a stride so that a tensor has about this span."""
        (tensor,) = (a for a in self._signature.passed if a.name == name)
        strides = tensor.strides or ()
        free = [i for i, d in enumerate(strides) if d in self._strides and _extent(tensor.shape[i], sizes) > 1]
        if not free:
            return
        axis = self._random.choice(free)
        pairs = zip(tensor.shape, strides, strict=True)
        others = sum((_extent(n, sizes) - 1) * _extent(s, sizes) for i, (n, s) in enumerate(pairs) if i != axis)
        symbol = str(strides[axis])
        step = self._signature.symbols[symbol].divisibility
        stride = (span - 1 - others) // (_extent(tensor.shape[axis], sizes) - 1) // step + self._random.randrange(-1, 2)
        sizes[symbol] = max(stride, 0) * step

    def _argument(self, argument: Argument, position: int, sizes: Mapping[str, int]) -> Any:
        draw = self._random
        if argument.kind == "none":
            return None
        if argument.kind == "tensor":
            shape = tuple(_extent(d, sizes) for d in argument.shape)
            strides = tuple(_extent(d, sizes) for d in argument.strides or ())
            # The stride of an extent of 1 is never used, so it may be anything.
            strides = tuple(draw.randrange(1 << 20) if n == 1 and draw.random() < 0.5 else s
                            for n, s in zip(shape, strides, strict=True))  # fmt: skip
            step = max(argument.alignment, 1)
            return DrawnTensor(
                data=(position + 1 << 40) + draw.randrange(1 << 26) * step,
                shape=shape,
                strides=strides,
                dtype=argument.dtype,
                device=(DEVICES[argument.device], 0),
            )
        if argument.dtype.startswith(("int", "uint")):
            least, most = limits(argument.dtype)
            value = draw.choice([0, 1, draw.randrange(300), least, most, draw.randrange(least, most)])
            return value // argument.divisibility * argument.divisibility
        return draw.choice([True, False]) if argument.dtype == "bool" else draw.choice([0.0, -0.5, draw.uniform(-9, 9)])


def _extent(dim: Dim, sizes: Mapping[str, int]) -> int:
    return sizes[dim] if isinstance(dim, str) else dim
