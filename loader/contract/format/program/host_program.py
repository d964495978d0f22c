"""The host program of a cubin: which kernels a call launches, how, and the bytes of their parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from precast.loader.contract.format import fields
from precast.loader.contract.format.patterns import SYMBOL
from precast.loader.contract.format.program.expression import (
    Expression,
    changes,
    evaluate,
    leaves_in,
    leaves_of,
    parse_expression,
    to_json,
)
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError, LaunchError

Extent = tuple[Expression, Expression, Expression]
WIDTHS = (1, 2, 4, 8)
STEPS, PARAMETERS, BYTES, WORDS = 8, 64, 4096, 1024
_GRID, _BLOCK, _CLUSTER, _SHARED = (2**31 - 1, 65535, 65535), (1024, 1024, 64), (16, 16, 16), 232448
ONE = (1, 1, 1)


class Launch(NamedTuple):
    """One launch: blocks, threads of a block, blocks of a cluster, and bytes of dynamic shared memory. With ``overlap``
    it may begin while the launch before it still runs."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = ONE
    shared: int = 0
    overlap: bool = False


class Word(NamedTuple):
    """A number in a parameter: its byte offset, its width in bytes, and its value."""

    offset: int
    width: int
    value: Expression


class Parameter(Immutable, kw_only=True):
    """One parameter of a kernel: ``size`` bytes, all zero except for its words."""

    size: int
    words: tuple[Word, ...]

    def to_json(self) -> dict[str, Any]:
        return {"size": self.size, "words": [[w.offset, w.width, to_json(w.value)] for w in self.words]}

    @classmethod
    def parse(cls, value: object) -> Parameter:
        data = fields.known(fields.as_object(value), ("size", "words"))
        size = fields.count(data, "size", most=BYTES)
        words = fields.items(data, "words", _word, most=WORDS)
        for position, word in enumerate(words):
            if word.offset + word.width > size:
                raise FormatError("the word ends after its parameter", f"words[{position}]")
        return cls(size=size, words=words)

    def packed(self, leaves: Mapping[str, int]) -> bytes:
        """The bytes for these leaves."""
        data = bytearray(self.size)
        for offset, width, value in self.words:
            number = evaluate(value, leaves) & ((1 << 8 * width) - 1)
            data[offset : offset + width] = number.to_bytes(width, "little")
        return bytes(data)


class Step(Immutable, kw_only=True):
    """One launch of a call, which is made if ``when`` is not 0."""

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
        """Every expression except those of the parameters."""
        yield from (*self.grid, *self.block, *self.cluster, self.shared, self.when)

    def launch(self, leaves: Mapping[str, int]) -> Launch | None:
        """The launch for these leaves, or None. Raises a LaunchError if it exceeds the limits of every device."""
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
            grid=parse_extent(data, "grid"),
            block=parse_extent(data, "block"),
            cluster=parse_extent(data, "cluster"),
            shared=fields.parsed(data, "shared", parse_expression),
            overlap=fields.get(data, "overlap", bool),
            when=fields.parsed(data, "when", parse_expression),
            parameters=parameters,
        )


class HostProgram(Immutable, kw_only=True):
    """What a call does: its steps, in order. ``limit``, if not 0, is the largest number of elements of a tensor for
    which the program was checked against the host code.

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
        launches = []
        for step in self.steps:
            launch = step.launch(leaves)
            if launch is not None:
                launches.append((step.kernel, launch, tuple(p.packed(leaves) for p in step.parameters)))
        return launches

    def check(self, signature: Signature) -> None:
        """Raise a FormatError for a leaf that the signature does not have, or a signature that cannot check a call."""
        signature.check_shapes()
        leaves = set(leaves_of(signature))
        for position, step in enumerate(self.steps):
            words = (word.value for parameter in step.parameters for word in parameter.words)
            for leaf in (leaf for expression in (*step.expressions, *words) for leaf in leaves_in(expression)):
                if leaf not in leaves:
                    raise FormatError(f"{leaf!r} is not in {signature}", f"program.steps[{position}]")
            for leaf in (leaf for expression in step.expressions for leaf in leaves_in(expression)):
                if changes(leaf):
                    raise FormatError(f"{leaf!r} must not decide a launch", f"program.steps[{position}]")

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


def parse_extent(data: fields.Object, name: str) -> Extent:
    """Read a grid, block or cluster: three expressions."""
    extent = fields.items(data, name, parse_expression, most=3)
    if len(extent) != 3:
        raise FormatError("expected three expressions", name)
    return extent[0], extent[1], extent[2]


def _word(value: object) -> Word:
    offset, width, expression = value if isinstance(value, (list, tuple)) and len(value) == 3 else (None, None, None)
    if type(offset) is not int or type(width) is not int or width not in WIDTHS or not 0 <= offset < BYTES:
        raise FormatError("expected an offset, a width of 1, 2, 4 or 8 bytes, and an expression")
    return Word(offset, width, parse_expression(expression))
