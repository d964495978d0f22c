"""Packing: the parameters of a launch, packed but for what calls of one form differ in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from precast.loader.fast_start.values import Immutable
from precast.loader.format.program.expression import Expression, changes, evaluate, leaves_in
from precast.loader.format.program.host_program import Parameter, Word

_ROOM, _TAIL = 16, 7  # a parameter begins at a multiple of this; so many bytes after it may be read, as its padding


class Packing(Immutable, kw_only=True):
    """Parameters one after the other. ``offsets`` are where each begins; ``gaps`` are the words that each call fills
    in, because they are made of an address or of a real number.

    >>> x = Parameter(size=12, words=(Word(0, 8, "x.data"), Word(8, 4, "x.shape[0]")))
    >>> packing = Packing.of([x], {"x.data": 16, "x.shape[0]": 3})
    >>> packing.filled({"x.data": 32})[:12].hex()
    '200000000000000003000000'
    """

    template: bytes
    offsets: tuple[int, ...]
    gaps: tuple[Word, ...]

    @classmethod
    def of(cls, parameters: Iterable[Parameter], leaves: Mapping[str, int]) -> Packing:
        """How a checked call is packed, and with it every call of the same form."""
        template, offsets, gaps = b"", [], []
        for parameter in parameters:
            start = len(template)
            offsets.append(start)
            changing = (w for w in parameter.words if any(map(changes, leaves_in(w.value))))
            gaps += [Word(start + w.offset, w.width, _settled(w.value, leaves)) for w in changing]
            template += parameter.packed(leaves) + bytes(-(parameter.size + _TAIL) % _ROOM + _TAIL)
        return cls(template=template, offsets=tuple(offsets), gaps=tuple(gaps))

    def filled(self, leaves: Mapping[str, int]) -> bytearray:
        """The parameters of a call of this form, whose addresses and real numbers are these."""
        data = bytearray(self.template)
        for offset, width, value in self.gaps:
            number = evaluate(value, leaves) & ((1 << 8 * width) - 1)
            data[offset : offset + width] = number.to_bytes(width, "little")
        return data


def _settled(expression: Expression, leaves: Mapping[str, int]) -> Expression:
    """The expression with a number for every leaf that is the same in all calls of a form."""
    if isinstance(expression, str):
        return expression if changes(expression) else leaves[expression]
    if isinstance(expression, tuple):
        function, left, right = expression
        return function, _settled(left, leaves), _settled(right, leaves)
    return expression
