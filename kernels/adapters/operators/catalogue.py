"""The catalogue: which operators exist for some operands on a target, or why none does.

The operators' own metadata answers, before anything is compiled: each family lists the designs it has for the given
operands, and its ``supports`` judges them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from precast.kernels.adapters.operators import arguments
from precast.kernels.adapters.operators.config import Design, Operands, shown
from precast.kernels.adapters.operators.epilogue import Epilogue
from precast.kernels.adapters.pinned_package import PinnedPackage
from precast.loader.contract.format.target import Target
from precast.loader.errors import PrecastError

OPERATORS = PinnedPackage(distribution="nvidia-cutlass-operators", version="0.3.0", extra="cutlass")
_FLOATS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
_TARGETS = ("sm_80", "sm_90a", "sm_100a")
_TRIED: dict[str, tuple[Any, ...]] = {
    "accumulator": ("float32", "float16", "int32", "float64"),
    "out_dtype": ("float16", "bfloat16", "float32", "int32", "int8", *_FLOATS[2:]),
    "a_major": ("k", "m"),
    "b_major": ("k", "n"),
    "out_major": ("n", "m"),
    "epilogue": ("",),
    "format": tuple(arguments.FORMATS),
    "dtype": (*_FLOATS, "int8", "uint8"),
}


class NoOperator(PrecastError):
    """No operator supports a config; the message names what would work."""

    code = "PCK05"


def refusal(question: arguments.Question, design: Design, target: Target, operator: type | None = None) -> str | None:
    """Why no operator does this, ending in what would work; None where one does."""
    reason = OPERATORS.obstacle()
    if reason is None and isinstance(question, Operands) and question.epilogue:
        reason = Epilogue.refusal(question.epilogue)
    if reason is not None:
        return reason
    has = designs(question, str(target), operator)
    if not has:
        return _no_operands(question, target, operator)
    if not any(design.admits(d) for d in has):
        return _no_design(design, has, target)
    return _epilogue_refusal(question, design, target, operator) if getattr(question, "epilogue", "") else None


def choose(question: arguments.Question, design: Design, target: Target, operator: type | None = None) -> Any:
    """The operator for a config: the first one registered that has the design."""
    call = arguments.make(question)
    operators = _operators(call, target, operator, lambda metadata: design.admits(Design.of_metadata(metadata)))
    if not operators:
        raise NoOperator(refusal(question, design, target, operator) or "its operator refuses its own metadata: report")
    return operators[0]


def _epilogue_refusal(
    question: arguments.Question, design: Design, target: Target, operator: type | None
) -> str | None:
    """Why an operator cannot translate an epilogue that its metadata supports: making the operator shows it."""
    try:
        choose(question, design, target, operator)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        return f"its operator cannot translate this epilogue ({message}): write it with other operations"
    return None


@functools.lru_cache(maxsize=256)
def designs(question: arguments.Question, target: str, operator: type | None = None) -> tuple[Design, ...]:
    """Every design that some operator has for the operands on a target, in the order of their registration."""
    seen: list[Any] = []

    def record(metadata: Any) -> bool:
        seen.append(metadata)
        return False  # nothing needs to be made of it yet

    try:
        call = arguments.make(question)
    except (ValueError, TypeError, KeyError):  # the operators cannot describe these operands
        return ()
    _operators(call, Target.parse(target), operator, record)
    words = target.removeprefix("sm_")
    return tuple(Design.of_metadata(m) for m in seen if m.supports(call, target_sm=words))


def _lists_operands(metadata: Any) -> bool:
    """Whether an operator lists these operands. An operator may offer designs for operands that it does not list, such
    as eight-bit ones that are not k-major on sm_90a."""
    combinations = _combinations(metadata.operator_class)
    return combinations is None or metadata.operands in combinations


@functools.lru_cache(maxsize=64)
def _combinations(operator: Any) -> tuple[Any, ...] | None:
    combinations = getattr(operator, "_metadata_operand_combinations", None)
    return tuple(combinations()) if combinations else None


def _operators(call: Any, target: Target, operator: type | None, accept: Callable[[Any], bool]) -> list[Any]:
    """The operators that the metadata's filter accepts; ``operator`` keeps those of one class."""
    ops = OPERATORS.module("cutlass.operators")

    def both(metadata: Any) -> bool:
        return (
            (operator is None or metadata.operator_class is operator) and _lists_operands(metadata) and accept(metadata)
        )

    words = str(target).removeprefix("sm_")
    operators: list[Any] = []
    for provider in ops.providers.available_providers.values():
        candidates = provider.generate_operators(
            both, epilogue_args=getattr(call, "epilogue", None), target_sm=words, args=call
        )
        operators += [candidate for candidate in candidates if candidate.supports(call, target_sm=words)]
    return operators


def _no_operands(question: arguments.Question, target: Target, operator: type | None) -> str:
    """Name the key that prevents it, by changing one at a time."""
    elsewhere = [t for t in _TARGETS if t != str(target) and designs(question, t, operator)]
    names = {f.name for f in fields(question)}
    for name, values in _TRIED.items():
        if name not in names:
            continue
        works = [v for v in values if v != getattr(question, name) and _works(question, name, v, target, operator)]
        if works:
            return (
                f"no operator for {target} has {name} {shown(getattr(question, name))} with the rest of this: "
                f"use {name} {_either(works)}" + (f", or build it for {' or '.join(elsewhere)}" if elsewhere else "")
            )
    keys = ", ".join(f"{f.name} {shown(getattr(question, f.name))}" for f in fields(question))
    advice = f"build it for {' or '.join(elsewhere)}" if elsewhere else "change more than one of these"
    return f"no operator for {target} has {keys}: {advice}"


def _works(question: arguments.Question, name: str, value: Any, target: Target, operator: type | None) -> bool:
    changed: Any = replace(question, **{name: value})
    if name == "dtype":
        return any(designs(candidate, str(target), operator) for candidate in _typical(changed))
    return bool(designs(changed, str(target), operator))


def _typical(question: Any) -> Iterable[Any]:
    """The same question with the accumulator and result that its dtype usually has."""
    integer = question.dtype in ("int8", "uint8")
    kind = "int32" if integer else "float32"
    yield question
    if hasattr(question, "accumulator"):
        yield replace(question, accumulator=kind, out_dtype=kind)


def _no_design(design: Design, has: tuple[Design, ...], target: Target) -> str:
    """Name the key of the design to change; where no single one helps, list the designs for its tile."""
    for f in fields(Design):
        name = f.name
        works = {getattr(d, name) for d in has if replace(design, **{name: getattr(d, name)}).admits(d)}
        if works:
            return (
                f"no operator for {target} has {name} {shown(getattr(design, name))} with the rest of this design: "
                f"use {name} {_either(sorted(works, key=_order))}"
            )
    tiles = sorted({d.tile for d in has})
    if design.tile not in tiles:
        return f"no operator for {target} has tile {shown(design.tile)}: use tile {_either(tiles)}"
    same = {(d.cluster, d.two_cta, d.scheduler, d.fallback_cluster) for d in has if d.tile == design.tile}
    examples = [
        f"cluster {shown(c)}, two_cta {shown(t)}, scheduler {s}" + (f", fallback_cluster {shown(f)}" if f else "")
        for c, t, s, f in sorted(same, key=str)[:3]
    ]
    return f"no operator for {target} has this design with tile {shown(design.tile)}: use {' or '.join(examples)}"


def _order(value: Any) -> tuple[bool, Any]:
    return (value is not None, value)


def _either(values: Iterable[Any]) -> str:
    words = [shown(v) for v in values]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
