"""Declarations: what an author states about a kernel, beside the function that compiles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import EllipsisType, MappingProxyType
from typing import Any, Protocol, TypeVar

from precast.kernels.authoring.composition import Part, Ranks
from precast.kernels.authoring.errors import DeclarationError
from precast.kernels.authoring.module_functions import ATTRIBUTE, PARAMETERS, with_module_functions
from precast.kernels.authoring.schema import keys_of, name_of
from precast.kernels.authoring.tile import Tile
from precast.loader.contract.format.config import Config, Key, suggest
from precast.loader.contract.format.patterns import NAME, OP_NAME
from precast.loader.contract.format.target import Target, TargetPattern
from precast.loader.errors import TargetError

F = TypeVar("F", bound=Callable[..., Any])
Problem = Mapping[str, int]
Names = Mapping[str, str] | Callable[[Config], Mapping[str, str]]
Supports = Callable[[Config, Target], "str | None"]
Problems = Callable[[Config], Sequence[Problem]]
Reference = Callable[[Config, Mapping[str, Any]], "dict[str, Any]"]
Peers = Callable[[Config, Mapping[str, Any]], Mapping[str, Callable[[], Any]]]
Arguments = Mapping[str, Any]
Passes = Callable[[Config, Mapping[str, Any]], "Arguments | Sequence[Arguments]"]
SPEED_FACTS = (
    "multiprocessor_count", "max_active_clusters", "max_threads_per_multiprocessor", "max_blocks_per_multiprocessor",
    "max_shared_memory_per_multiprocessor", "max_registers_per_multiprocessor", "max_persisting_l2_cache_size",
)  # fmt: skip
"""What ``speed_only`` may name: how much runs at once. The limits of a block are none: beyond them nothing launches."""

SPECIAL_VALUES = ("nan", "infinity", "zero", "denormal")
"""What ``special_values`` may name."""

GRID = ("multiprocessor_count", "max_active_clusters")
"""``speed_only`` of a kernel that sizes its grid by what runs at once, and whose blocks take one tile after another."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from the reference: ``|result - expected| <= atol + rtol * |expected| + ulps * ulp``.

    ``ulp`` is a unit in the last place of the result's dtype at the expected value. Rounding to the nearest costs half
    of one, which is as a share of the value anything from half of ``eps / 2`` to all of it.

    A declaration computes it from a config:

    >>> def tolerance(config: Config) -> Tolerance:
    ...     return Tolerance(rtol=2.0**-8 if config["dtype"] == "bfloat16" else 1e-6, atol=0.0)
    >>> tolerance({"dtype": "bfloat16"})
    Tolerance(rtol=0.00390625, atol=0.0, ulps=0.0)
    """

    rtol: float
    atol: float
    ulps: float = 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    """The least work of one launch: floating-point operations, and bytes read from and written to memory.

    A declaration computes it from a config and a problem; ``precast bench`` divides it by the measured time:

    >>> def cost(config: Config, problem: Problem) -> Cost:
    ...     return Cost(flops=problem["n"], bytes=2 * 4 * problem["n"])  # read once, written once, four bytes each
    >>> cost({}, {"n": 1000}).bytes
    8000
    """

    flops: int
    bytes: int


class Inputs(Protocol):
    """Makes all arguments of the compiled function, by name and in call order; outputs may hold any values."""

    def __call__(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The description of a kernel, without compiling it. All but ``op`` and ``keys`` is optional.

    - ``targets``: patterns of the targets it can be built for, such as ``sm_80+``; none means any.
    - ``supports``: returns the reason why a config cannot be built for a target, or None.
    - ``problems``: the sizes to verify and bench a config with.
    - ``inputs``: makes every argument for one problem.
    - ``large``: one more problem to verify, of more than 2**31 elements. It is run where the GPU has memory for it.
    - ``outputs``: the arguments that the kernel writes; ``in_place``: those of them that it also reads.
    - ``workspace``: arguments that it also writes, and that hold no result. A caller passes them again to the next
      launch as they are, and so does ``verify``. Whatever a kernel writes is in one of these lists.
    - ``reference``: computes what the outputs must hold, in float32 or better.
    - ``tolerance``: how far the outputs may be from that. Without it they must be equal.
    - ``special_values``: which of ``nan``, ``infinity``, ``zero`` and ``denormal`` the kernel takes in its inputs, and
      the reference is right for.
    - ``deterministic``: whether the same inputs always give the same bits. Atomic additions in any order do not.
    - ``cost``: the least work of a launch, from which ``bench`` computes rates.
    - ``tile``: the part of a problem that one cluster of blocks works on. With it, the choice between measured
      problems knows how full the last wave of a variant is.
    - ``peer``: other implementations, to be timed beside the kernel: a function from a config and the inputs of
      a problem to calls by their names, such as ``{"torch.mul": lambda: torch.mul(x, 2, out=out)}``. A call
      returns what the first output must hold, or a tuple that begins with it. It is empty where there is no other.
    - ``arguments``: other names for the arguments of the compiled function: a mapping, or a function from a config
      to one.
    - ``parts``: names for the objects of a function that compiles several, in order, each with the arguments that it
      writes. Such a function cannot be verified as a whole.
    - ``part``: of a function that compiles several objects, how each is verified, by its name; None where it cannot be.
    - ``ranks``: of a kernel that several GPUs launch together, how many these are and what each learns of the others.
      ``verify`` launches all of them at once. It is not timed.
    - ``passes``: what the kernel is passed beside what ``inputs`` makes, or in place of it, from all that this makes:
      addresses of tensors, also as ``Multicast``, or a ``Window``. Then ``outputs`` may name tensors that are reached
      through these.
    - ``rank_key``: the key of the config that has a rank's number, where each rank has a kernel of its own and all must
      run at once. Then ``passes`` returns the arguments of each rank, and the variants of all are emulated together.
    - ``speed_only``: the facts of the GPU, such as ``multiprocessor_count``, that may be another GPU's: the kernel is
      right with any number, and a wrong one only costs speed. ``max_active_clusters`` stands for clusters of every
      size. All other facts that it queries must be the same where it runs: a kernel whose blocks wait for each other
      names none, since it would wait forever where fewer of them run at once than it assumes.
    - ``imports``: the modules of installed libraries that the function imports when it compiles. A worker imports them
      once; without it, each of its first variants does.
    """

    op: str
    keys: tuple[Key, ...]
    targets: tuple[str, ...] = ()
    supports: Supports | None = None
    problems: Problems | None = None
    inputs: Inputs | None = None
    large: Callable[[Config], Problem] | None = None
    outputs: tuple[str, ...] = ()
    in_place: tuple[str, ...] = ()
    workspace: tuple[str, ...] = ()
    reference: Reference | None = None
    tolerance: Callable[[Config], Tolerance] | None = None
    special_values: tuple[str, ...] = SPECIAL_VALUES
    deterministic: bool = True
    cost: Callable[[Config, Problem], Cost] | None = None
    tile: Callable[[Config, Target], Tile | None] | None = None
    peer: Peers | None = None
    arguments: Names = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    part: Callable[[str, Config, Target], Part | None] | None = None
    ranks: Ranks | None = None
    passes: Passes | None = None
    rank_key: str = ""
    speed_only: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    def refusal(self, config: Config, target: Target) -> str | None:
        """Why a full config cannot be built for a target, or None where it can.

        >>> Declaration(op="scale", keys=(), targets=("sm_90+",)).refusal({}, Target.parse("sm_80"))
        'scale is for sm_90+, not sm_80: build it for another target'
        """
        if self.targets and not any(TargetPattern.parse(p).admits(target) for p in self.targets):
            return f"{self.op} is for {', '.join(self.targets)}, not {target}: build it for another target"
        return self.supports(config, target) if self.supports else None

    def of_part(self, name: str, config: Config, target: Target) -> Declaration:
        """The declaration of one of the objects, as if it were compiled alone.

        >>> Declaration(op="norm", keys=()).of_part("first", {}, Target.parse("sm_90")).op
        'norm.first'
        """
        part = self.part(name, config, target) if self.part else None
        alone = replace(self, op=f"{self.op}.{name}", part=None, parts={}, problems=None)
        return alone if part is None else alone.verified_by(part)

    def verified_by(self, part: Part) -> Declaration:
        """The declaration with what verifies it.

        >>> part = Part(problems=[{"n": 1}], inputs=dict, outputs=("out",), reference=lambda config, values: {})
        >>> Declaration(op="norm", keys=()).verified_by(part).verifiable
        True
        """
        values = {f.name: getattr(part, f.name) for f in fields(part)}
        problems = values.pop("problems")
        return replace(self, problems=lambda config: problems, **values)

    @property
    def verifiable(self) -> bool:
        """Whether the declaration has all that is needed to run the kernel and check its results."""
        return None not in (self.problems, self.inputs, self.reference) and bool(self.outputs) and not self.parts


def kernel(
    *,
    op: str,
    targets: Sequence[str] = (),
    supports: Supports | EllipsisType | None = ...,
    problems: Problems | EllipsisType | None = ...,
    inputs: Inputs | EllipsisType | None = ...,
    large: Callable[[Config], Problem] | EllipsisType | None = ...,
    outputs: Sequence[str] = (),
    in_place: Sequence[str] = (),
    workspace: Sequence[str] = (),
    reference: Reference | EllipsisType | None = ...,
    tolerance: Callable[[Config], Tolerance] | EllipsisType | None = ...,
    special_values: Sequence[str] = SPECIAL_VALUES,
    deterministic: bool = True,
    cost: Callable[[Config, Problem], Cost] | EllipsisType | None = ...,
    tile: Callable[[Config, Target], Tile | None] | EllipsisType | None = ...,
    peer: Peers | EllipsisType | None = ...,
    arguments: Names | None = None,
    part: Callable[[str, Config, Target], Part | None] | None = None,
    ranks: Ranks | None = None,
    passes: Passes | None = None,
    rank_key: str = "",
    speed_only: Sequence[str] = (),
    imports: Sequence[str] = (),
) -> Callable[[F], F]:
    """Declare a function that compiles one kernel. The function itself is returned unchanged.

    Its parameters are the kernel's config keys. See ``Declaration`` for what each argument means. ``supports``,
    ``problems``, ``inputs``, ``large``, ``reference``, ``tolerance``, ``cost``, ``tile`` and ``peer`` need not be
    written: a function of that name that the module defines above the kernel, with the parameters of the contract, is
    taken. None in its place takes none. Where a module has two kernels, the second says which functions it takes.

    >>> @kernel(op="double", targets=["sm_80+"])
    ... def double(dtype: str, threads: int = 128): ...
    >>> declaration_of(double).op, [key.name for key in declaration_of(double).keys]
    ('double', ['dtype', 'threads'])
    """
    written = {
        "supports": supports, "problems": problems, "inputs": inputs, "large": large, "reference": reference,
        "tolerance": tolerance, "cost": cost, "tile": tile, "peer": peer,
    }  # fmt: skip

    def declare(function: F) -> F:
        declaration = Declaration(
            op=op,
            keys=keys_of(function),
            targets=_sequence(function, "targets", targets),
            outputs=_sequence(function, "outputs", outputs),
            in_place=_sequence(function, "in_place", in_place),
            workspace=_sequence(function, "workspace", workspace),
            special_values=_sequence(function, "special_values", special_values),
            deterministic=deterministic,
            arguments=arguments if callable(arguments) else MappingProxyType(dict(arguments or {})),
            part=part,
            ranks=ranks,
            passes=passes,
            rank_key=rank_key,
            speed_only=_sequence(function, "speed_only", speed_only),
            imports=_sequence(function, "imports", imports),
            **with_module_functions(function, written, outputs),
        )
        return attach(function, declaration)

    return declare


def attach(function: F, declaration: Declaration) -> F:
    """Give a function a declaration, as ``kernel`` does."""
    _check(function, declaration)
    try:
        setattr(function, ATTRIBUTE, declaration)
    except AttributeError:
        where = name_of(function)
        raise DeclarationError(f"{where} takes no attributes: decorate a plain function around it") from None
    return function


def is_declared(function: Callable[..., Any]) -> bool:
    """Whether a function has a declaration of its own.

    >>> is_declared(len)
    False
    """
    return isinstance(getattr(function, ATTRIBUTE, None), Declaration)


def declaration_of(function: Callable[..., Any], op: str | None = None) -> Declaration:
    """The declaration of a function. One without ``@kernel`` gets the given op, and its config keys by its signature.

    >>> @kernel(op="double")
    ... def double(dtype: str): ...
    >>> declaration_of(double).op, declaration_of(double, op="mine.double").op
    ('double', 'mine.double')
    >>> def plain(n: int): ...
    >>> declaration_of(plain, op="mine.plain").keys
    (Key(name='n', type='int', tuned=False, has_default=False, default=None, choices=()),)
    """
    declared = getattr(function, ATTRIBUTE, None)
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
    """The new names that a function's declaration gives to arguments; empty where they keep their own."""
    declared = getattr(function, ATTRIBUTE, None)
    if not isinstance(declared, Declaration):
        return {}
    names = declared.arguments
    return names(config) if callable(names) else names


def outputs_of(function: Callable[..., Any], part: int = 0) -> tuple[str, ...]:
    """The arguments that a compiled object writes, by the function's declaration; none where it declares nothing."""
    declared = getattr(function, ATTRIBUTE, None)
    if not isinstance(declared, Declaration):
        return ()
    return tuple(declared.parts.values())[part] if declared.parts else declared.outputs


def _sequence(function: Callable[..., Any], name: str, value: Sequence[str]) -> tuple[str, ...]:
    if isinstance(value, str) or not all(isinstance(v, str) for v in value):
        raise DeclarationError(f"{name_of(function)}: {name} is {value!r}: write a list of strings")
    return tuple(value)


def _check(function: Callable[..., Any], declaration: Declaration) -> None:
    where = name_of(function)
    if not isinstance(declaration.op, str) or not OP_NAME.admits(declaration.op):
        raise DeclarationError(
            f"{where}: op {declaration.op!r} is not a valid name: use lower-case letters, digits, _ and dots"
        )
    for name in () if callable(declaration.arguments) else declaration.arguments.values():
        if not isinstance(name, str) or not NAME.admits(name):
            raise DeclarationError(f"{where}: arguments: {name!r} is not a valid name: use letters, digits and _")
    for fact in declaration.speed_only:
        if fact not in SPEED_FACTS:
            raise DeclarationError(f"{where}: speed_only: unknown fact {fact!r}{suggest(fact, SPEED_FACTS)}")
    for kind in declaration.special_values:
        if kind not in SPECIAL_VALUES:
            raise DeclarationError(f"{where}: special_values: unknown value {kind!r}{suggest(kind, SPECIAL_VALUES)}")
    for pattern in declaration.targets:
        try:
            TargetPattern.parse(pattern)
        except TargetError as error:
            raise DeclarationError(f"{where}: targets: {error}") from None
    for part in PARAMETERS:
        value = getattr(declaration, part)
        if value is not None and not callable(value):
            raise DeclarationError(f"{where}: {part} is {value!r}: give a function")
