"""The host program that an author's launch plan stands for."""

from __future__ import annotations

from collections.abc import Iterator

from precast.loader.errors import FormatError
from precast.loader.format.launch_plan import LaunchPlan
from precast.loader.format.program.host_program import HostProgram, Parameter, Step, Word
from precast.loader.format.signature import Argument, Signature

_WIDTHS = {f"{sign}int{8 * width}": width for sign in ("", "u") for width in (1, 2, 4, 8)}
_NUMBERS = {**_WIDTHS, "float16": 2, "float32": 4, "float64": 8, "bool": 1}


def program_of(plan: LaunchPlan, signature: Signature, kernel: str) -> HostProgram:
    """One launch, whose parameters are the plan's arguments: of a tensor its address, its shape and its strides, as far
    as these were left open; of a number the number. Each member stands at a multiple of its own size.

    A FormatError where an argument's layout is not known.
    """
    arguments = {a.name: a for a in signature.passed}
    step = Step(
        kernel=kernel,
        grid=plan.grid,
        block=plan.block,
        cluster=plan.cluster,
        shared=plan.shared,
        parameters=tuple(_parameter(arguments[name], signature) for name in plan.parameters),
    )
    return HostProgram(steps=(step,))


def _parameter(argument: Argument, signature: Signature) -> Parameter:
    words = list(_scalar(argument) if argument.kind == "scalar" else _tensor(argument, signature))
    return Parameter(size=words[-1].offset + words[-1].width, words=tuple(words))


def _scalar(argument: Argument) -> Iterator[Word]:
    if argument.dtype not in _NUMBERS:
        raise FormatError(f"{argument.name}: how {argument.dtype} is packed is not known", "plan")
    leaf = f"{argument.name}.bits" if argument.dtype.startswith("float") else argument.name
    yield Word(0, _NUMBERS[argument.dtype], leaf)


def _tensor(argument: Argument, signature: Signature) -> Iterator[Word]:
    name, at = argument.name, 8
    if argument.strides is None:
        raise FormatError(f"{name}: its strides are not in the signature, so how it is packed is not known", "plan")
    yield Word(0, 8, f"{name}.data")
    for what, dims in (("shape", argument.shape), ("strides", argument.strides)):
        for place, dim in enumerate(dims):
            if isinstance(dim, str):
                width = _WIDTHS.get(signature.symbols[dim].dtype, 0)
                if not width:
                    raise FormatError(f"{name}: how its sizes are packed is not known", "plan")
                at = -(-at // width) * width
                yield Word(at, width, f"{name}.{what}[{place}]")
                at += width
