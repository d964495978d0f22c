"""The host program of a cubin: which kernels a call launches, how, and the bytes of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from precast.loader.errors import FormatError, LaunchError
from precast.loader.fast_start.values import Immutable
from precast.loader.format import fields
from precast.loader.format.patterns import SYMBOL
from precast.loader.format.program.expression import (
    Expression,
    changes,
    evaluate,
    leaves_in,
    leaves_of,
    parse_expression,
    to_json,
)
from precast.loader.format.signature import Signature

Extent = tuple[Expression, Expression, Expression]
WIDTHS = (1, 2, 4, 8)
STEPS, PARAMETERS, BYTES, WORDS = 8, 64, 4096, 1024
_GRID, _BLOCK, _CLUSTER, _SHARED = (2**31 - 1, 65535, 65535), (1024, 1024, 64), (16, 16, 16), 232448
ONE = (1, 1, 1)


class Launch(NamedTuple):
    """One launch: blocks, threads of a block, blocks of a cluster, bytes of dynamic shared memory; and whether it may
    begin while what was launched before still runs."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = ONE
    shared: int = 0
    overlap: bool = False


class Word(NamedTuple):
    """A number in a parameter: at which byte, how many bytes, and what it is."""

    offset: int
    width: int
    value: Expression


class Parameter(Immutable, kw_only=True):
    """One parameter of a kernel: so many bytes, which are zero but for its words."""

    size: int
    words: tuple[Word, ...]

    def to_json(self) -> dict[str, Any]:
        return {"size": self.size, "words": [[w.offset, w.width, to_json(w.value)] for w in self.words]}

    @classmethod
    def parse(cls, value: object) -> Parameter:
        data = fields.known(fields.as_object(value), ("size", "words"))
        size = fields.count(data, "size", most=BYTES)
        words = fields.items(data, "words", _word, most=WORDS)
        for place, word in enumerate(words):
            if word.offset + word.width > size:
                raise FormatError("it ends after its parameter", "words").within(place)
        return cls(size=size, words=words)

    def packed(self, leaves: Mapping[str, int]) -> bytes:
        """The bytes for these leaves."""
        data = bytearray(self.size)
        for offset, width, value in self.words:
            number = evaluate(value, leaves) & ((1 << 8 * width) - 1)
            data[offset : offset + width] = number.to_bytes(width, "little")
        return bytes(data)


class Step(Immutable, kw_only=True):
    """One launch of a call, made where ``when`` is not 0."""

    kernel: str
    grid: Extent
    block: Extent
    parameters: tuple[Parameter, ...]
    cluster: Extent = ONE
    shared: Expression = 0
    overlap: bool = False
    when: Expression = 1

    @property
    def expressions(self) -> Iterator[Expression]:
        """Every expression of it but those of its parameters."""
        yield from (*self.grid, *self.block, *self.cluster, self.shared, self.when)

    def launch(self, leaves: Mapping[str, int]) -> Launch | None:
        """The launch for these leaves, or None; one that exceeds every device's limits is refused."""
        if not evaluate(self.when, leaves):
            return None
        grid, block, cluster = (_evaluated(extent, leaves) for extent in (self.grid, self.block, self.cluster))
        shared = evaluate(self.shared, leaves)
        for what, extent, most in (("grid", grid, _GRID), ("block", block, _BLOCK), ("cluster", cluster, _CLUSTER)):
            if not all(1 <= n <= limit for n, limit in zip(extent, most, strict=True)):
                raise LaunchError(f"the {what} would be {extent}, of at most {most} and at least 1: give other sizes")
        if not 0 <= shared <= _SHARED:
            raise LaunchError(f"{shared} bytes of shared memory, of at most {_SHARED}: give other sizes")
        return Launch(grid, block, cluster, shared, self.overlap)

    def to_json(self) -> dict[str, Any]:
        extents = {"grid": self.grid, "block": self.block, "cluster": self.cluster}
        return {
            **{name: [to_json(e) for e in extent] for name, extent in extents.items()},
            "kernel": self.kernel,
            "shared": to_json(self.shared),
            "overlap": self.overlap,
            "when": to_json(self.when),
            "parameters": [p.to_json() for p in self.parameters],
        }

    @classmethod
    def parse(cls, value: object) -> Step:
        names = ("kernel", "grid", "block", "cluster", "shared", "overlap", "when", "parameters")
        data = fields.known(fields.as_object(value), names)
        parameters = fields.items(data, "parameters", Parameter.parse, most=PARAMETERS)
        if sum(p.size for p in parameters) > BYTES:
            raise FormatError(f"more than {BYTES} bytes", "parameters")
        return cls(
            kernel=fields.matching(data, "kernel", SYMBOL, "a symbol name"),
            grid=_extent(data, "grid"),
            block=_extent(data, "block"),
            cluster=_extent(data, "cluster"),
            shared=fields.parsed(data, "shared", parse_expression),
            overlap=fields.get(data, "overlap", bool),
            when=fields.parsed(data, "when", parse_expression),
            parameters=parameters,
        )


class HostProgram(Immutable, kw_only=True):
    """All that a call does: its steps, in order. ``limit``, if not 0, is how many elements a tensor may have at most:
    beyond it, what the host code does is not known.

    >>> blocks = ("ceil_div", "x.shape[0]", 256)
    >>> x = Parameter(size=8, words=(Word(0, 8, "x.data"),))
    >>> step = Step(kernel="k", grid=(blocks, 1, 1), block=(256, 1, 1), parameters=(x,))
    >>> ((kernel, launch, parameters),) = HostProgram(steps=(step,)).launches({"x.shape[0]": 1000, "x.data": 16})
    >>> launch.grid, parameters[0].hex()
    ((4, 1, 1), '1000000000000000')
    """

    steps: tuple[Step, ...]
    limit: int = 0

    def launches(self, leaves: Mapping[str, int]) -> list[tuple[str, Launch, tuple[bytes, ...]]]:
        """Each launch of a call, with its kernel and the bytes of its parameters."""
        made = []
        for step in self.steps:
            launch = step.launch(leaves)
            if launch is not None:
                made.append((step.kernel, launch, tuple(p.packed(leaves) for p in step.parameters)))
        return made

    def check(self, signature: Signature) -> None:
        """Refuse a program with leaves that the signature does not have, and a signature that no call is checked by."""
        signature.check_shapes()
        known = set(leaves_of(signature))
        for place, step in enumerate(self.steps):
            words = (word.value for parameter in step.parameters for word in parameter.words)
            for expressions, here in ((step.expressions, {n for n in known if not changes(n)}), (words, known)):
                for leaf in (leaf for expression in expressions for leaf in leaves_in(expression)):
                    if leaf not in here:
                        what = "decides no launch" if leaf in known else f"is nothing of {signature}"
                        raise FormatError(f"{leaf!r} {what}", "program.steps").within(place)

    def to_json(self) -> dict[str, Any]:
        return {"limit": self.limit, "steps": [step.to_json() for step in self.steps]}

    @classmethod
    def parse(cls, value: object) -> HostProgram:
        data = fields.known(fields.as_object(value), ("limit", "steps"))
        return cls(
            steps=fields.items(data, "steps", Step.parse, most=STEPS),
            limit=fields.count(data, "limit", most=2**62),
        )


def _evaluated(extent: Extent, leaves: Mapping[str, int]) -> tuple[int, int, int]:
    x, y, z = extent
    return evaluate(x, leaves), evaluate(y, leaves), evaluate(z, leaves)


def _extent(data: fields.Object, name: str) -> Extent:
    extent = fields.items(data, name, parse_expression, most=3)
    if len(extent) != 3:
        raise FormatError("expected three expressions", name)
    return extent[0], extent[1], extent[2]


def _word(value: object) -> Word:
    offset, width, expression = value if isinstance(value, (list, tuple)) and len(value) == 3 else (None, None, None)
    if type(offset) is not int or type(width) is not int or width not in WIDTHS or not 0 <= offset < BYTES:
        raise FormatError("expected an offset, a width of 1, 2, 4 or 8 bytes, and an expression")
    return Word(offset, width, parse_expression(expression))
