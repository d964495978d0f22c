"""Benching: how long a kernel takes on a problem, beside its peers on the same inputs."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from precast.kernels.authoring.declare import Cost, Declaration, Problem
from precast.kernels.authoring.errors import DeclarationError
from precast.loader.contract.format import fields
from precast.loader.contract.format.config import Config
from precast.loader.errors import FormatError
from precast.measure.launching.cases import bound, is_layout
from precast.measure.timing import timer
from precast.measure.timing.ceilings import positive

USUAL = ("warm", "host", "peer")
EXTRAS = (*USUAL, "torch_compile", "just_in_time")
"""What ``bench`` may measure beside the launches with a cold cache; what compiles must be requested."""

_MOST = 1000
_LONG = 20_000  # microseconds: what is repeated takes no longer than this at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One problem: the median time of a launch in microseconds, and half of the interquartile range as its spread.

    The spread is no less than half of what the clock resolves.

    ``bytes`` and ``flops`` are the least work of a launch, by the declaration's ``cost``; 0 without one. ``written``
    are the bytes of the outputs, which may stay in the L2 cache. ``warm`` is the time of a launch among others like it,
    ``host`` the host's time of a call, and ``just_in_time`` that of the DSL's own object; 0 where they were not
    measured. ``peers`` are the times of what others have for it, on the same inputs and in turns with the kernel.
    ``notes`` say what was not measured, and why.
    """

    problem: Problem
    microseconds: float
    spread: float
    bytes: int = 0
    flops: int = 0
    written: int = 0
    warm: float = 0.0
    host: float = 0.0
    just_in_time: float = 0.0
    peers: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in self.problem.items())
        rates = [f"{self.bytes / self.microseconds / 1e3:.0f} GB/s"] if self.bytes else []
        rates += [f"{self.flops / self.microseconds / 1e6:.1f} TFLOP/s"] if self.flops else []
        return f"{self.microseconds:.2f} us (+-{self.spread:.2f}) at {sizes}{', ' if rates else ''}{', '.join(rates)}"

    def to_json(self) -> dict[str, Any]:
        """As JSON has it, to be read by ``parse``."""
        return {
            "problem": dict(self.problem),
            "microseconds": self.microseconds,
            "spread": self.spread,
            "bytes": self.bytes,
            "flops": self.flops,
            "written": self.written,
            "warm": self.warm,
            "host": self.host,
            "just_in_time": self.just_in_time,
            "peers": dict(self.peers),
            "notes": list(self.notes),
        }

    @classmethod
    def parse(cls, value: object) -> Timing:
        """Read what another process says.

        >>> one = Timing(problem={"n": 8}, microseconds=2.5, spread=0.1, peers={"torch.mul": 3.0})
        >>> Timing.parse(one.to_json()) == one
        True
        """
        data = fields.as_object(value)
        sizes = fields.parsed(data, "problem", fields.as_object)
        return cls(
            problem={name: fields.count(sizes, name, most=2**63 - 1) for name in sizes},
            microseconds=fields.parsed(data, "microseconds", positive),
            spread=fields.parsed(data, "spread", _time),
            bytes=fields.count(data, "bytes", most=2**63 - 1, default=0),
            flops=fields.count(data, "flops", most=2**63 - 1, default=0),
            written=fields.count(data, "written", most=2**63 - 1, default=0),
            warm=fields.parsed(data, "warm", _time, 0.0),
            host=fields.parsed(data, "host", _time, 0.0),
            just_in_time=fields.parsed(data, "just_in_time", _time, 0.0),
            peers=fields.table(data, "peers", positive, most=_MOST, default={}),
            notes=fields.items(data, "notes", fields.text, most=_MOST, default=()),
        )


def _time(value: object) -> float:
    if type(value) not in (int, float) or not 0 <= value < 1e15:  # type: ignore[operator]
        raise FormatError("expected a number of microseconds")
    return float(value)  # type: ignore[arg-type]


def bench(
    launch: Callable[..., Any],
    declaration: Declaration,
    config: Config,
    *,
    problems: list[Problem],
    device: Any = "cuda",
    launches: int = timer.LAUNCHES,
    extras: Sequence[str] = (),
    just_in_time: Callable[[], Callable[..., Any]] | None = None,
) -> Iterator[Timing]:
    """Time the launches of some problems, each with a cold L2 cache, and some of ``EXTRAS``.

    ``just_in_time`` compiles the same kernel in this process. An extra that fails is reported and skipped.
    """
    if declaration.inputs is None:
        raise DeclarationError(f"{declaration.op} cannot be benched: give its @kernel inputs")
    if declaration.passes is not None:
        raise DeclarationError(f"{declaration.op} takes addresses of other GPUs: time it in a program on all of them")
    if declaration.ranks is not None:
        raise DeclarationError(f"{declaration.op} waits for other ranks: time it in a program that launches all")
    for problem in problems:
        yield _timed(launch, declaration, config, problem, device, launches, extras, just_in_time)


def benched(declaration: Declaration, config: Config) -> list[Problem]:
    """The problems of a declaration that have work to time."""
    if declaration.problems is None:
        raise DeclarationError(f"{declaration.op} cannot be benched: give its @kernel problems, or name some")
    return [p for p in declaration.problems(config) if _has_work(declaration, config, p)]


def _has_work(declaration: Declaration, config: Config, problem: Problem) -> bool:
    """Whether there is something to time; without a declared cost, whether all sizes are above zero."""
    if declaration.cost is not None:
        return declaration.cost(config, problem) != Cost(flops=0, bytes=0)
    return all(size > 0 for name, size in problem.items() if not is_layout(name))


def _timed(
    launch: Callable[..., Any],
    declaration: Declaration,
    config: Config,
    problem: Problem,
    device: Any,
    launches: int,
    extras: Sequence[str],
    just_in_time: Callable[[], Callable[..., Any]] | None,
) -> Timing:
    assert declaration.inputs is not None
    inputs = declaration.inputs(config, problem, device=device, seed=0)
    run = bound(launch, inputs)
    notes: list[str] = []
    peers = _peers(declaration, config, inputs, notes, "torch_compile" in extras) if "peer" in extras else {}
    times, *others = timer.cold([run, *peers.values()], device, launches=launches)
    times.sort()
    quarter, middle = len(times) // 4, statistics.median(times)
    few = max(2, min(timer.LAUNCHES, int(_LONG / middle)))
    calls = max(10, min(200, int(_LONG / middle)))
    compiled = 0.0
    if just_in_time is not None and "just_in_time" in extras:
        try:
            other = functools.partial(just_in_time(), *inputs.values())
            compiled = timer.host(other, device, calls=calls)
        except Exception as error:
            notes.append(f"not compiled just in time: {_line(error)}")
    cost = declaration.cost(config, problem) if declaration.cost else None
    return Timing(
        problem=dict(problem),
        microseconds=middle,
        spread=max(times[-1 - quarter] - times[quarter], timer.RESOLUTION) / 2,
        bytes=cost.bytes if cost else 0,
        flops=cost.flops if cost else 0,
        written=sum(_bytes(inputs.get(name)) for name in declaration.outputs),
        warm=statistics.median(timer.warm(run, device, launches=few)) if "warm" in extras else 0.0,
        host=timer.host(run, device, calls=calls) if "host" in extras else 0.0,
        just_in_time=compiled,
        peers={name: statistics.median(times) for name, times in zip(peers, others, strict=True)},
        notes=tuple(notes),
    )


def _peers(
    declaration: Declaration, config: Config, inputs: Mapping[str, Any], notes: list[str], compiled: bool
) -> dict[str, timer.Run]:
    """The peers that run here at all: each is called once. With ``compiled``, those of torch are compiled, too."""
    if declaration.peer is None:
        return {}
    peers: dict[str, timer.Run] = {}
    try:
        runs = declaration.peer(config, inputs)
    except Exception as error:
        notes.append(f"no peer: {_line(error)}")
        return {}
    if compiled:
        runs = {
            **runs,
            **{f"torch.compile({n})": compiled_for_this(r) for n, r in runs.items() if n.startswith("torch")},
        }
    for name, run in runs.items():
        try:
            run()
            peers[name] = run
        except Exception as error:
            notes.append(f"no time of {name}: {_line(error)}")
    return peers


def compiled_for_this(run: timer.Run) -> timer.Run:
    """A peer of torch as ``torch.compile`` makes it for the very sizes of its inputs.

    What it made for other sizes is dropped: a function that was compiled for eight sizes is run as it is for any more.
    """
    import torch

    torch.compiler.reset()
    compiled: timer.Run = torch.compile(run, dynamic=False)
    return compiled


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def _bytes(value: Any) -> int:
    """The bytes of a tensor's elements, without the gaps between its rows."""
    return int(value.numel() * value.element_size()) if hasattr(value, "element_size") else 0
