"""CUDA graphs of whole steps, and their times beside each other."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

_WARM = 3  # rounds that are not counted


def captured(run: Callable[[], torch.Tensor]) -> tuple[Callable[[], None], torch.Tensor]:
    """A CUDA graph of a run, and where its result is after a replay."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM):
            run()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return graph.replay, result


def milliseconds(replays: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median time of each, all of them in turn, after warming up."""
    found: dict[str, list[float]] = {name: [] for name in replays}
    for number in range(rounds + _WARM):
        marks = {}
        for name, replay in replays.items():
            before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            before.record()
            replay()
            after.record()
            marks[name] = (before, after)
        torch.cuda.synchronize()
        if number >= _WARM:
            for name, (before, after) in marks.items():
                found[name].append(before.elapsed_time(after))
    return {name: statistics.median(values) for name, values in found.items()}
