"""A module of PTX as values: functions, their bodies, and variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SIZES = {
    "pred": 1,
    **{f"{kind}8": 8 for kind in "bsu"},
    **{f"{kind}16": 16 for kind in "bsuf"},
    "bf16": 16,
    "e4m3x2": 16,
    "e5m2x2": 16,
    **{f"{kind}32": 32 for kind in "bsuf"},
    "f16x2": 32,
    "bf16x2": 32,
    **{f"{kind}64": 64 for kind in "bsuf"},
    "b128": 128,
}
"""The bits of each fundamental type."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a state space: its name, bytes and alignment, and what it holds at first."""

    name: str
    space: str
    size: int
    align: int
    initial: bytes = b""
    dynamic: bool = False


class Scope:
    """What is declared between braces. Names that are not are looked up outside."""

    __slots__ = ("labels", "number", "parent", "ranges", "registers", "variables")

    def __init__(self, parent: Scope | None, number: int) -> None:
        self.parent = parent
        self.number = number
        self.registers: dict[str, int] = {}
        self.ranges: dict[str, tuple[int, int]] = {}  # a prefix: how many registers it names, and their bits
        self.labels: set[str] = set()
        self.variables: dict[str, Variable] = {}

    def register(self, name: str) -> tuple[Scope, int] | None:
        """The scope that declares a register, and its bits."""
        scope: Scope | None = self
        prefix = name.rstrip("0123456789")
        while scope is not None:
            bits = scope.registers.get(name)
            if bits is not None:
                return scope, bits
            if prefix in scope.ranges and prefix != name:
                count, bits = scope.ranges[prefix]
                if int(name[len(prefix) :]) < count:
                    return scope, bits
            scope = scope.parent
        return None

    def label(self, name: str) -> Scope | None:
        """The scope that declares a label."""
        scope: Scope | None = self
        while scope is not None and name not in scope.labels:
            scope = scope.parent
        return scope

    def variable(self, name: str) -> tuple[Scope, Variable] | None:
        """The scope that declares a variable, and the variable."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope, scope.variables[name]
            scope = scope.parent
        return None


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction. ``guard`` is a predicate's name, after ``!`` if it is negated, or empty."""

    line: int
    opcode: str
    operands: tuple[str, ...]
    scope: Scope
    guard: str = ""
    source: tuple[int, int] | None = None  # the number of a file, and a line

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operands)}".rstrip() + ";"


@dataclass(frozen=True, slots=True)
class Label:
    """A place to which one can jump."""

    name: str
    scope: Scope


@dataclass(frozen=True, slots=True)
class Targets:
    """A list of labels for ``brx.idx``."""

    name: str
    labels: tuple[str, ...]
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A kernel, or a function that kernels call."""

    name: str
    entry: bool
    parameters: tuple[Variable, ...]
    results: tuple[Variable, ...] = ()
    body: tuple[Statement | Label, ...] = ()
    tables: Mapping[str, Targets] = field(default_factory=dict)
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """All of one text."""

    version: str
    target: str
    functions: Mapping[str, Function]
    variables: Mapping[str, Variable]
    files: Mapping[int, str]
