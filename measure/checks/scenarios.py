"""Scenarios: the runs that are made of a problem. Which they are is decided here, without a tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from precast.measure.checks.guarded import enclose, fill

SMALL = 1 << 20
"""Up to so many elements, a problem is run in every way; beyond, in those that find what small ones cannot."""

Way = Literal["alone", "beside other work", "on a second stream"]
_LARGE, _LOW = 0x7B7B7B7B, 0xFBFBFBFB  # in every floating type, and as integers
_FILLS = ((_LOW, 0), None, (_LARGE, 0))  # of schedules in turn: max, min and comparisons drop a NaN
_UNWRITTEN = (
    "the first run differed only in what outputs, the workspace, registers and memory held: one of these is read before"
    " it is written"
)
_NAMES = {"nan": "with NaN", "infinity": "with infinity", "zero": "with zeros", "denormal": "with denormals"}


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order in which an emulator executes: its seed, and by how many turns asynchronous effects may be late.

    ``fill`` are two words that registers and memory hold before they are written; without, they hold NaN.

    >>> str(Schedule(seed=3, delay=200))
    'schedule 3, delay 200'
    """

    seed: int
    delay: int
    fill: tuple[int, int] | None = None

    def __str__(self) -> str:
        return f"schedule {self.seed}, delay {self.delay}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One run. ``pattern`` is what outputs hold before it; ``special`` names values that are put into the inputs.

    A ``repeated`` run has the inputs and the workspace of the first run, and must give the same bits.
    ``least_alignment`` moves every tensor to an address that is aligned as the signature requires, and no better.
    ``schedule`` is the order in which an emulator executes, and ``note`` is what a failure of this run alone means.
    ``left_out`` is the reason why a run is skipped.
    """

    name: str
    pattern: int = 0xFF
    way: Way = "alone"
    special: str = ""
    repeated: bool = False
    least_alignment: bool = False
    schedule: Schedule | None = None
    note: str = ""
    left_out: str = ""


FIRST = Scenario(name="first run")


def scenarios(
    elements: int,
    *,
    gpu: bool,
    deterministic: bool,
    special_values: Sequence[str],
    aligned: bool,
    huge: bool = False,
    schedules: Sequence[Schedule] | None = None,
) -> tuple[Scenario, ...]:
    """The runs of a problem whose tensors have so many elements.

    Every run has another pattern in its outputs: what is left unwritten, or added to what was there, then differs. The
    first has NaN. An empty problem is run once, since it has no result; so is a ``huge`` one, for its memory. Emulated
    runs have ``schedules`` in place of streams and of other work.

    >>> runs = scenarios(100, gpu=True, deterministic=True, special_values=["zero"], aligned=False)
    >>> [run.name for run in runs]
    ['first run', 'second run', 'third run, beside other work', 'on a second stream', 'with zeros']
    >>> order = [Schedule(1, 200)]
    >>> runs = scenarios(9, gpu=False, deterministic=True, special_values=[], aligned=False, schedules=order)
    >>> [run.name for run in runs]
    ['first run', 'second run', 'schedule 1, delay 200']
    """
    if elements == 0 or huge:
        return (FIRST,)
    if schedules is not None:
        return _emulated(elements, deterministic, special_values, aligned, schedules)
    runs = [
        FIRST,
        Scenario(name="second run", pattern=0x5A, repeated=deterministic),
        Scenario(
            name="third run, beside other work" if gpu else "third run",
            pattern=0xA5,
            way="beside other work" if gpu else "alone",
            repeated=deterministic,
        ),
    ]
    if elements > SMALL:
        return tuple(runs)
    reason = "" if gpu else "there are no streams on the CPU"
    runs.append(Scenario(name="on a second stream", way="on a second stream", left_out=reason))
    return (*runs, *_other_inputs(special_values, aligned))


def _emulated(
    elements: int, deterministic: bool, special_values: Sequence[str], aligned: bool, schedules: Sequence[Schedule]
) -> tuple[Scenario, ...]:
    """The runs of an emulator, which executes in the same order each time unless it has a schedule.

    Each run has something else in registers and memory that are not written yet.
    """
    patterns = (0xA5, 0x5A)
    again = Schedule(seed=0, delay=0, fill=(_LARGE, _LARGE))
    runs = [
        FIRST,
        Scenario(name="second run", pattern=0x5A, repeated=deterministic, schedule=again, note=_UNWRITTEN),
        *(
            Scenario(
                name=str(schedule),
                pattern=patterns[i % len(patterns)],
                repeated=deterministic,
                schedule=replace(schedule, fill=_FILLS[i % len(_FILLS)]),
            )
            for i, schedule in enumerate(schedules)
        ),
    ]
    return tuple(runs) if elements > SMALL else (*runs, *_other_inputs(special_values, aligned))


def _other_inputs(special_values: Sequence[str], aligned: bool) -> tuple[Scenario, ...]:
    """The runs with tensors at other addresses, and with other values in them."""
    moved = (Scenario(name="at the least alignment", least_alignment=True),) if aligned else ()
    return (*moved, *(Scenario(name=_NAMES[kind], special=kind) for kind in special_values))


def with_special(kind: str, tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of tensors, those of a floating type with special values.

    NaN and infinity stand in three places of each, so that most of a result does not depend on them. Zeros and denormal
    numbers fill all of it: a division by a sum, say, must meet a sum of nothing else.

    >>> import torch
    >>> with_special("infinity", {"x": torch.ones(5), "n": torch.ones(2, dtype=torch.int32)})["x"].tolist()
    [inf, 1.0, -inf, 1.0, inf]
    """
    views = {name: view for buffer in enclose(tensors, pattern=0) for name, view in buffer.views.items()}
    for tensor in views.values():
        if tensor.dtype.is_floating_point and tensor.numel():
            _put(kind, tensor)
    return views


def _put(kind: str, tensor: Any) -> None:
    import torch

    if kind == "zero":
        fill(tensor, torch.zeros_like(tensor))
    elif kind == "denormal":
        smallest = torch.finfo(tensor.dtype).smallest_normal  # of which a quarter is a number of every type
        steps = torch.arange(tensor.numel(), device=tensor.device) % 7 - 3
        fill(tensor, (steps.double() * smallest / 4).view(tensor.shape).to(tensor.dtype))
    else:
        value = math.nan if kind == "nan" else math.inf
        if kind == "infinity" and not bool(
            torch.full((), value, device=tensor.device).to(tensor.dtype).double().isinf()
        ):
            return  # a type without infinity
        count = tensor.numel()
        for number, position in enumerate(sorted({0, count // 2, count - 1})):
            index = torch.unravel_index(torch.tensor(position), tensor.shape)
            tensor[tuple(int(i) for i in index)] = -value if number == 1 else value
