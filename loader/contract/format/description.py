"""A kernel described for people: the author's docstring, and its arguments."""

from __future__ import annotations

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import config_text
from precast.loader.contract.format.signature import Argument, Dim, Signature


def describe(op: str, artifact: Artifact, doc: str = "") -> str:
    """The text of ``help(kernel)`` for an artifact.

    Parameters
    ----------
    op, artifact
        The artifact to describe.
    doc
        The author's docstring, which is ``OpReader.doc``.
    """
    lines = [doc.strip(), ""] if doc.strip() else []
    lines += [f"{op} {config_text(artifact.config)}, compiled for {artifact.target}.", "", "Arguments, in call order:"]
    lines += [f"    {describe_argument(argument)}" for argument in artifact.signature.passed]
    symbols = describe_symbols(artifact.signature)
    return "\n".join([*lines, *(["", "where"] if symbols else []), *(f"    {line}" for line in symbols)])


def describe_argument(argument: Argument) -> str:
    """One argument with everything that a caller must observe.

    >>> x = Argument(name="x", kind="tensor", dtype="float16", shape=("m", 8), strides=("s", 1), alignment=16)
    >>> describe_argument(x)
    'x: float16[m, 8], strides (s, 1), aligned to 16 bytes'
    >>> describe_argument(Argument(name="p", kind="pointer", dtype="int32"))
    'p: pointer to int32'
    """
    kind, requirements = describe_parts(argument)
    return ", ".join([f"{argument.name}: {kind}", *requirements])


def describe_parts(argument: Argument) -> tuple[str, list[str]]:
    """The type of an argument, and what else a caller must observe.

    >>> describe_parts(Argument(name="x", kind="tensor", dtype="float16", shape=("n",), alignment=16))
    ('float16[n]', ['aligned to 16 bytes'])
    """
    if argument.kind == "tuple":
        return f"({', '.join(map(describe_argument, argument.members))})", []
    kind = str(argument).removeprefix(f"{argument.name}: ")
    if argument.kind == "pointer" and argument.dtype:
        kind = f"pointer to {argument.dtype}"
    facts = []
    if argument.strides is not None and argument.strides != _compact(argument.shape):
        facts.append(f"strides ({', '.join(map(str, argument.strides))})")
    if argument.alignment > 1:
        facts.append(f"aligned to {argument.alignment} bytes")
    if argument.divisibility > 1:
        facts.append(f"a multiple of {argument.divisibility}")
    if argument.device not in ("", "cuda"):
        facts.append(f"on {argument.device}")
    if argument.written:
        facts.append("written")
    return kind, facts


def describe_symbols(signature: Signature) -> list[str]:
    """The symbols that are not simply 32-bit numbers, a line for each type.

    >>> from precast.loader.contract.format.signature import Symbol
    >>> wide = Symbol(dtype="int64", divisibility=8)
    >>> describe_symbols(Signature(arguments=(), symbols={"m": Symbol(dtype="int32"), "s": wide, "t": wide}))
    ['s, t: int64, multiples of 8']
    """
    groups: dict[tuple[str, int], list[str]] = {}
    for name, symbol in sorted(signature.symbols.items()):
        if symbol.dtype != "int32" or symbol.divisibility > 1:
            groups.setdefault((symbol.dtype, symbol.divisibility), []).append(name)
    return [_line(names, *kind) for kind, names in groups.items()]


def _line(names: list[str], dtype: str, divisibility: int) -> str:
    multiple = f", multiple{'s' if len(names) > 1 else ''} of {divisibility}" if divisibility > 1 else ""
    return f"{', '.join(names)}: {dtype}{multiple}"


def _compact(shape: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
    """The strides of a row-major tensor, if they follow from its shape; then they need no mention."""
    strides: list[Dim] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        if not isinstance(extent, int):
            return tuple(strides) if len(strides) == len(shape) else None
        step *= extent
    return tuple(strides)
