"""Declarations: what an author says of a kernel beyond the function that compiles it. All but the op is optional."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from precast.kernels.authoring.errors import DeclarationError
from precast.kernels.authoring.schema import keys_of, name_of
from precast.loader.errors import TargetError
from precast.loader.format.config import Config, Key
from precast.loader.format.launch_plan import LaunchPlan
from precast.loader.format.patterns import NAME, OP_NAME
from precast.loader.format.target import Target, TargetPattern

F = TypeVar("F", bound=Callable[..., Any])
Problem = Mapping[str, int]
Names = Mapping[str, str] | Callable[[Config], Mapping[str, str]]
_ATTRIBUTE = "__precast__"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may lie from the reference: ``|result - expected| <= atol + rtol * |expected|``."""

    rtol: float
    atol: float


@dataclass(frozen=True, slots=True)
class Cost:
    """What a launch has to do at the least: floating-point operations, and bytes to and from memory."""

    flops: int
    bytes: int


class Inputs(Protocol):
    """All arguments of the compiled function, by name and in call order; the outputs among them hold anything."""

    def __call__(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What is known of a kernel without compiling it.

    ``supports`` gives a reason why a config cannot be built for a target, or None. ``problems`` are the shapes to
    verify and bench a config with; ``inputs`` makes every argument for one of them; ``outputs`` names those that the
    kernel writes, and ``in_place`` those of them that it reads before; ``reference`` computes what they must hold, in
    float32 or better; ``workspace`` is the scratch memory it needs, in bytes. ``arguments`` gives the compiled
    function's arguments better names than its own: a mapping, or a function from a config to one. ``launch`` says how
    a cubin of it is launched; without it a kernel is shipped with its own host code only. A new ``version`` says that
    the kernel's results or arguments have changed.
    """

    op: str
    keys: tuple[Key, ...]
    targets: tuple[str, ...] = ()
    supports: Callable[[Config, Target], str | None] | None = None
    problems: Callable[[Config], Sequence[Problem]] | None = None
    inputs: Inputs | None = None
    outputs: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    reference: Callable[[Config, Mapping[str, Any]], dict[str, Any]] | None = None
    tolerance: Callable[[Config], Tolerance] | None = None
    cost: Callable[[Config, Problem], Cost] | None = None
    workspace: Callable[[Config, Problem], int] | None = None
    arguments: Names = field(default_factory=dict)
    launch: Callable[[Config], LaunchPlan] | None = None
    version: str = ""

    def refusal(self, config: Config, target: Target) -> str | None:
        """Why a full config cannot be built for a target, or None where it can.

        >>> Declaration(op="scale", keys=(), targets=("sm_90+",)).refusal({}, Target.parse("sm_80"))
        'scale is for sm_90+, not sm_80: build it for another target'
        """
        if self.targets and not any(TargetPattern.parse(p).admits(target) for p in self.targets):
            return f"{self.op} is for {', '.join(self.targets)}, not {target}: build it for another target"
        return self.supports(config, target) if self.supports else None

    @property
    def verifiable(self) -> bool:
        """Whether the declaration says enough to run the kernel and check what it wrote."""
        return None not in (self.problems, self.inputs, self.reference) and bool(self.outputs)


def kernel(
    *,
    op: str,
    targets: Sequence[str] = (),
    supports: Callable[[Config, Target], str | None] | None = None,
    problems: Callable[[Config], Sequence[Problem]] | None = None,
    inputs: Inputs | None = None,
    outputs: Sequence[str] = (),
    in_place: Sequence[str] = (),
    reference: Callable[[Config, Mapping[str, Any]], dict[str, Any]] | None = None,
    tolerance: Callable[[Config], Tolerance] | None = None,
    cost: Callable[[Config, Problem], Cost] | None = None,
    workspace: Callable[[Config, Problem], int] | None = None,
    arguments: Names | None = None,
    launch: Callable[[Config], LaunchPlan] | None = None,
    version: str = "",
) -> Callable[[F], F]:
    """Declare a function that compiles one kernel. The function itself stays as it is, and is called as before.

    >>> @kernel(op="double", targets=["sm_80+"])
    ... def double(dtype: str, threads: int = 128): ...
    >>> declaration_of(double).op, [key.name for key in declaration_of(double).keys]
    ('double', ['dtype', 'threads'])
    """

    def declare(function: F) -> F:
        declaration = Declaration(
            op=op,
            keys=keys_of(function),
            targets=_sequence(function, "targets", targets),
            supports=supports,
            problems=problems,
            inputs=inputs,
            outputs=_sequence(function, "outputs", outputs),
            in_place=_sequence(function, "in_place", in_place),
            reference=reference,
            tolerance=tolerance,
            cost=cost,
            workspace=workspace,
            arguments=arguments if callable(arguments) else MappingProxyType(dict(arguments or {})),
            launch=launch,
            version=version,
        )
        return attach(function, declaration)

    return declare


def attach(function: F, declaration: Declaration) -> F:
    """Give a function a declaration, as ``kernel`` does."""
    _check(function, declaration)
    try:
        setattr(function, _ATTRIBUTE, declaration)
    except AttributeError:
        where = name_of(function)
        raise DeclarationError(f"{where} takes no attributes: decorate a plain function around it") from None
    return function


def declaration_of(function: Callable[..., Any], op: str | None = None) -> Declaration:
    """The declaration of a function; for one that carries none, what its signature says, under the given op.

    >>> def plain(n: int): ...
    >>> declaration_of(plain, op="mine.plain").keys
    (Key(name='n', type='int', tuned=False, has_default=False, default=None, choices=()),)
    """
    declared = getattr(function, _ATTRIBUTE, None)
    if isinstance(declared, Declaration):
        if op is None or op == declared.op:
            return declared
        result = replace(declared, op=op)
    elif op is None:
        where = name_of(function)
        raise DeclarationError(
            f"{where} declares no op: decorate it with @kernel(op=..), or write 'op:' in the manifest"
        )
    else:
        result = Declaration(op=op, keys=keys_of(function))
    _check(function, result)
    return result


def argument_names(function: Callable[..., Any], config: Config) -> Mapping[str, str]:
    """What a function's declaration calls the arguments of its compiled object; empty where they keep their names."""
    declared = getattr(function, _ATTRIBUTE, None)
    if not isinstance(declared, Declaration):
        return {}
    names = declared.arguments
    return names(config) if callable(names) else names


def outputs_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The arguments that a function's declaration says its compiled object writes; none where it declares nothing."""
    declared = getattr(function, _ATTRIBUTE, None)
    return declared.outputs if isinstance(declared, Declaration) else ()


def plan_of(function: Callable[..., Any], config: Config) -> LaunchPlan | None:
    """How a function's declaration says that a cubin of its compiled object is launched; None where it does not say."""
    declared = getattr(function, _ATTRIBUTE, None)
    if not isinstance(declared, Declaration) or declared.launch is None:
        return None
    plan = declared.launch(config)
    if not isinstance(plan, LaunchPlan):
        raise DeclarationError(
            f"{name_of(function)}: launch gave {plan!r}: return a precast.loader.format.launch_plan.LaunchPlan"
        )
    return plan


def _sequence(function: Callable[..., Any], name: str, value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(v, str) for v in value):
        raise DeclarationError(f"{name_of(function)}: {name} is {value!r}: write a list of strings")
    return tuple(value)


def _check(function: Callable[..., Any], declaration: Declaration) -> None:
    where = name_of(function)
    if not isinstance(declaration.op, str) or not OP_NAME.admits(declaration.op):
        raise DeclarationError(f"{where}: op {declaration.op!r} is no name: use lower-case letters, digits, _ and dots")
    if not isinstance(declaration.version, str):
        raise DeclarationError(f"{where}: version is {declaration.version!r}: write a string")
    for name in () if callable(declaration.arguments) else declaration.arguments.values():
        if not isinstance(name, str) or not NAME.admits(name):
            raise DeclarationError(f"{where}: arguments: {name!r} is no name: use letters, digits and _")
    for pattern in declaration.targets:
        try:
            TargetPattern.parse(pattern)
        except TargetError as error:
            raise DeclarationError(f"{where}: targets: {error}") from None
    for part in ("supports", "problems", "inputs", "reference", "tolerance", "cost", "workspace", "launch"):
        value = getattr(declaration, part)
        if value is not None and not callable(value):
            raise DeclarationError(f"{where}: {part} is {value!r}: give a function")
