"""The clock of kernels: device time with a cold and with a warm L2 cache, and the host's time of a call.

Device times are those of CUDA graphs, between CUDA events: they hold no time of the host. All times are microseconds.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

LAUNCHES = 20
RESOLUTION = 0.5  # of CUDA's events, as the driver's documentation has it
Run = Callable[[], Any]

_WARM_UP = 3
_FLUSH = 256 << 20  # bytes: more than any GPU's L2 cache


def cold(
    runs: Sequence[Run],
    device: Any,
    *,
    launches: int = LAUNCHES,
    written_back: bool = False,
    graphs: bool = True,
) -> list[list[float]]:
    """The times of single launches of each run, each with a cold L2 cache, as after other kernels of a model.

    The runs take turns, so that what slows the GPU down for a moment meets all of them. What another kernel wrote last
    is still in the cache, and a launch that brings other lines has it written to memory; with ``written_back`` it is
    there before, so that a launch pays for its own lines alone. Without ``graphs``, for what cannot be captured, the
    times hold whatever the host does while the GPU waits for it.
    """
    import torch

    replays = [captured(run, device).replay if graphs else _warmed(run, device) for run in runs]
    flush = _flush(str(device))
    others = _read(str(device)) if written_back else None
    marks = [[_marks() for _ in range(launches)] for _ in replays]
    for turn in range(launches):
        for replay, run_marks in zip(replays, marks, strict=True):
            before, after = run_marks[turn]
            flush.zero_()
            if others is not None:
                others.sum()
            before.record()
            replay()
            after.record()
    torch.cuda.synchronize(device)
    return [[before.elapsed_time(after) * 1e3 for before, after in run_marks] for run_marks in marks]


def once(run: Run, device: Any) -> float:
    """The time of one launch behind another, for what may take very long: it holds some of the host's time."""
    import torch

    run()
    before, after = _marks()
    before.record()
    run()
    after.record()
    torch.cuda.synchronize(device)
    return float(before.elapsed_time(after) * 1e3)


def warm(run: Run, device: Any, *, launches: int = LAUNCHES, repeats: int = 5) -> list[float]:
    """The times of a launch among others like it, back to back in one graph: what fits the L2 cache is in it."""
    import torch

    graph = captured(run, device, launches)
    marks = [_marks() for _ in range(repeats)]
    for before, after in marks:
        before.record()
        graph.replay()
        after.record()
    torch.cuda.synchronize(device)
    return [before.elapsed_time(after) * 1e3 / launches for before, after in marks]


def host(run: Run, device: Any, *, calls: int = 200, batches: int = 7) -> float:
    """The time that a call takes the host, by the fastest of some batches, since other work on the host only adds.

    No call waits: a batch begins with an idle GPU, and is too small to fill the queue of launches.
    """
    import torch

    run()
    least = float("inf")
    for _ in range(batches):
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        for _ in range(calls):
            run()
        least = min(least, (time.perf_counter() - start) / calls)
    torch.cuda.synchronize(device)
    return least * 1e6


def captured(run: Run, device: Any, launches: int = 1) -> Any:
    """A CUDA graph of some launches, which was replayed once: the first replay also copies it to the device.

    It is captured by hand: ``torch.cuda.graph`` gives the memory between two captures back to the driver, which takes
    longer than the launches.
    """
    import torch

    torch.cuda.synchronize(device)  # the inputs are made on another stream
    stream = torch.cuda.Stream(device)
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UP):
            run()
        torch.cuda.synchronize(device)
        graph = torch.cuda.CUDAGraph()
        with _no_collection():
            graph.capture_begin()
            try:
                for _ in range(launches):
                    run()
            except BaseException:
                with contextlib.suppress(RuntimeError):  # the capture is lost: the first error says why
                    graph.capture_end()
                raise
            graph.capture_end()
    graph.replay()
    torch.cuda.synchronize(device)
    return graph


def _warmed(run: Run, device: Any) -> Run:
    """The run itself, after it has done whatever it does at first."""
    import torch

    for _ in range(_WARM_UP):
        run()
    torch.cuda.synchronize(device)
    return run


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Nothing that lies in a cycle is freed meanwhile: giving memory or a graph back would spoil a capture."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@functools.cache
def _flush(device: str) -> Any:
    """What is written between two launches, so that nothing of theirs stays in the L2 cache: one for a process."""
    import torch

    return torch.empty(_FLUSH, dtype=torch.uint8, device=device)


@functools.cache
def _read(device: str) -> Any:
    """What is read after that, so that all that was written has left the L2 cache."""
    import torch

    return torch.zeros(_FLUSH // 4, dtype=torch.float32, device=device)


def _marks() -> tuple[Any, Any]:
    import torch

    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
