"""Benching: how long a kernel takes on a problem, measured with CUDA events."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.declare import Declaration, Problem
from precast.kernels.authoring.errors import DeclarationError
from precast.loader.format.config import Config

_LAUNCHES = 20
_FLUSH = 256 << 20  # bytes: more than any GPU's L2 cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One problem: the median time of a launch and half of the interquartile range, in microseconds.

    ``bytes`` and ``flops`` are the least work of a launch, by the declaration's ``cost``; 0 without one.
    """

    problem: Problem
    microseconds: float
    spread: float
    bytes: int = 0
    flops: int = 0

    def __str__(self) -> str:
        sizes = " ".join(f"{name}={size}" for name, size in self.problem.items())
        rates = [f"{self.bytes / self.microseconds / 1e3:.0f} GB/s"] if self.bytes else []
        rates += [f"{self.flops / self.microseconds / 1e6:.1f} TFLOP/s"] if self.flops else []
        return f"{self.microseconds:.2f} us (+-{self.spread:.2f}) at {sizes}{', ' if rates else ''}{', '.join(rates)}"


def bench(
    launch: Callable[..., Any],
    declaration: Declaration,
    config: Config,
    *,
    problems: list[Problem],
    device: Any = "cuda",
) -> Iterator[Timing]:
    """Time the launches of some problems, each with a cold L2 cache, as in a model where other kernels ran before.

    Every launch is a CUDA graph of this kernel alone, so that it takes no time on the host.
    """
    if declaration.inputs is None:
        raise DeclarationError(f"{declaration.op} cannot be benched: give its @kernel inputs")
    for problem in problems:
        values = tuple(declaration.inputs(config, problem, device=device, seed=0).values())
        times = sorted(_times(lambda values=values: launch(*values), device))  # type: ignore[misc]
        quarter = len(times) // 4
        cost = declaration.cost(config, problem) if declaration.cost else None
        yield Timing(
            problem=problem,
            microseconds=statistics.median(times),
            spread=(times[-1 - quarter] - times[quarter]) / 2,
            bytes=cost.bytes if cost else 0,
            flops=cost.flops if cost else 0,
        )


def benched(declaration: Declaration, config: Config) -> list[Problem]:
    """The problems of a declaration that have work to time."""
    if declaration.problems is None:
        raise DeclarationError(f"{declaration.op} cannot be benched: give its @kernel problems, or name some")
    return [p for p in declaration.problems(config) if all(size > 0 for n, size in p.items() if "padding" not in n)]


@functools.cache
def _flush(device: Any) -> Any:
    """Memory that is written between two launches, once for a process: to allocate it takes longer than a launch."""
    import torch

    return torch.empty(_FLUSH, dtype=torch.uint8, device=device)


def _times(run: Callable[[], Any], device: Any, launches: int = _LAUNCHES) -> list[float]:
    import torch

    for _ in range(3):
        run()
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    flush = _flush(device)
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(launches)]
    for before, after in marks:
        flush.zero_()
        before.record()
        graph.replay()
        after.record()
    torch.cuda.synchronize(device)
    return [before.elapsed_time(after) * 1e3 for before, after in marks]
