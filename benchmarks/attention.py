"""Attention at shapes that no tuning saw, beside torch's: ``python benchmarks/attention.py CACHE [--json FILE]``.

The shapes are those of ``attention-unseen.yaml``: from many short sequences to a long one, with a mask and without,
dense and packed. At each, the variant that ``loader.get`` chooses for the problem is timed in turns with torch's
attention of the same inputs: CUDA graphs, a cold L2 cache, medians. The peer is the fastest of torch's own choice and
of each backend, requested by name (``attention_peers.py``). Some rows are compared with float32, of peers too. With
``--candidates`` every variant of the config is timed, too, and the best is printed beside the choice. It needs torch,
yaml and the loader, no compiler.

Whatever is timed is timed in another process, each peer of packed sequences in one of its own, in turns with ours: one
that faults or hangs is reported as not measured, with the reason, and the others are measured. A peer that cannot be
captured is timed without graphs, and so is our variant beside it. FILE is written after every shape.

About 60 seconds on an H200, with ``--candidates`` some minutes. Exit status 1: nothing was timed, or a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, log
from pathlib import Path

from attention_peers import DENSE, PACKED, PADDED, names
from attention_shapes import SHAPES, Shape, shapes
from attention_times import Request, Times, serve
from measuring_process import Lost, Processes

SECONDS = 30.0  # for a reply
LOSSES = {True: 1, False: 2}  # by whether graphs are used: after as many, a peer is not requested so again


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One shape: the microseconds of the variant that the loader chose, of each peer, and of each candidate.

    ``ratio`` is the time of the fastest peer over ours, the median over launches in turns, and ``spread`` half of its
    interquartile range. ``candidates`` is empty without ``--candidates``. ``without_graphs`` has the peers that were
    not captured, and ``not_measured`` why others have no time.
    """

    shape: Shape
    ours: float
    teraflops: float
    ratio: float
    spread: float
    chosen: str
    peer: str
    peers: Mapping[str, float]
    candidates: Mapping[str, float]
    without_graphs: tuple[str, ...] = ()
    not_measured: Mapping[str, str] = field(default_factory=dict)

    @property
    def best(self) -> tuple[float, str]:
        """The time of the fastest variant, and which it is."""
        return min([(self.ours, self.chosen), *((took, name) for name, took in self.candidates.items())])


class Measurement:
    """Requests the times of shapes, and remembers which peers do not reply."""

    def __init__(self, processes: Processes, *, with_candidates: bool) -> None:
        self._processes, self._with_candidates = processes, with_candidates
        self._losses: dict[tuple[str, bool], int] = {}

    def timed(self, shape: Shape) -> Timed:
        """Our variant and the peers of one shape; raises Lost if no peer has a time."""
        not_measured: dict[str, str] = {}
        found: list[tuple[bool, Times]] = []
        every = names(shape)
        for group in [every] if every == DENSE else [(name,) for name in every]:
            found += self._group(shape, group, not_measured, self._with_candidates and not found)
        if not any(times.peers for _, times in found):
            raise Lost("; ".join(f"{name}: {why}" for name, why in not_measured.items()))
        return joined(shape, found, not_measured)

    def _group(
        self, shape: Shape, group: tuple[str, ...], not_measured: dict[str, str], with_candidates: bool
    ) -> Iterator[tuple[bool, Times]]:
        """The times of peers in one process, or of each in its own if they end it."""
        for graphs in (True, False):
            label = (", ".join(group), graphs)
            if self._losses.get(label, 0) >= LOSSES[graphs]:
                continue
            request = Request(shape=shape, peers=group, graphs=graphs, candidates=with_candidates)
            try:
                times = self._processes.reply("dense" if group == DENSE else group[0], request)
            except Lost as error:
                if error.own:
                    raise
                if len(group) > 1:
                    for name in group:
                        yield from self._group(shape, (name,), not_measured, with_candidates)
                    return
                if error.hung or group[0] not in DENSE:
                    self._losses[label] = self._losses.get(label, 0) + (2 if error.hung else 1)
                not_measured[group[0]] = str(error)
                continue
            for name in times.peers:
                not_measured.pop(name, None)
            not_measured.update(times.left_out)
            yield graphs, times
            return
        for name in group:
            not_measured.setdefault(name, "it was lost at an earlier shape")


def joined(shape: Shape, found: Sequence[tuple[bool, Times]], not_measured: Mapping[str, str]) -> Timed:
    """The figures of a shape, from times that were taken in one process or in several.

    Each peer is compared with ours in its own process; our own time is the one from graphs, where there is one.
    """
    ratios = {name: compared(took, times.ours) for _, times in found for name, took in times.peers.items()}
    peer = min(ratios, key=lambda name: ratios[name][0])
    _, own = max(found, key=lambda entry: (entry[0], bool(entry[1].candidates)))
    ours = round(statistics.median(own.ours), 3)
    return Timed(
        shape=shape,
        ours=ours,
        teraflops=round(shape.operations / ours / 1e6, 1),
        ratio=ratios[peer][0],
        spread=ratios[peer][1],
        chosen=own.chosen,
        peer=peer,
        peers={name: round(statistics.median(took), 3) for _, times in found for name, took in times.peers.items()},
        candidates=own.candidates,
        without_graphs=tuple(name for graphs, times in found if not graphs for name in times.peers),
        not_measured=dict(not_measured),
    )


def compared(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, float]:
    """The median ratio of times that were taken in turns, and half of its interquartile range.

    >>> compared([2.0, 4.0, 3.0, 2.0], [1.0, 2.0, 1.0, 1.0])
    (2.0, 0.0)
    """
    ratios = sorted(other / own for own, other in zip(ours, theirs, strict=True))
    quarter = len(ratios) // 4
    return round(statistics.median(ratios), 4), round((ratios[-1 - quarter] - ratios[quarter]) / 2, 4)


def summary(rows: Sequence[Timed]) -> dict[str, float]:
    """The figures of a table: ratios of the peer's time to ours, and how near the choice comes to the best."""
    found = {
        "shapes": float(len(rows)),
        "geometric_mean": _mean([row.ratio for row in rows]),
        "least": min(row.ratio for row in rows),
    }
    known = [row for row in rows if row.candidates]
    if known:
        found["of_best"] = _mean([row.best[0] / row.ours for row in known])
        ratios = [row.ratio * row.ours / row.best[0] for row in known]
        found |= {"best_geometric_mean": _mean(ratios), "best_least": min(ratios)}
    return {name: round(value, 4) for name, value in found.items()}


def _mean(values: Sequence[float]) -> float:
    return exp(statistics.mean(log(value) for value in values))


def main(argv: list[str] | None = None) -> int:
    """Time every shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path, metavar="CACHE")
    parser.add_argument("--candidates", action="store_true", help="time every variant, too")
    parser.add_argument("--shapes", type=Path, default=SHAPES, metavar="FILE", help="other shapes than the unseen ones")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of one shape of one peer (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    os.environ["PRECAST_CACHE_PATH"] = str(options.cache.resolve())
    rows: list[Timed] = []
    lost: dict[str, str] = {}
    mistakes = 0
    begun = time.monotonic()
    wanted = shapes(options.shapes)
    with Processes(serve, options.seconds * (10 if options.candidates else 1)) as processes:
        processes.start(tuple(processes_of(wanted)))
        measurement = Measurement(processes, with_candidates=options.candidates)
        for shape in wanted:
            try:
                rows.append(measurement.timed(shape))
            except Lost as error:
                mistakes += error.own
                lost[" ".join(str(shape).split())] = str(error)
                print(f"{shape} not measured: {error}", flush=True)
            else:
                print("\n".join(lines(rows[-1])), flush=True)
            if options.json:
                write(options.json, rows, lost, tuned=is_tuned(options.cache))
    if not rows:
        return 1
    print(f"{summary(rows)} in {time.monotonic() - begun:.0f} s")
    return 1 if mistakes else 0


def processes_of(wanted: Sequence[Shape]) -> list[str]:
    """The processes that shapes need where nothing fails.

    >>> processes_of(shapes())
    ['dense', 'torch packed by FlashAttention', 'torch packed by cuDNN', 'torch nested', 'torch padded by cuDNN']
    """
    needed = {name for shape in wanted for name in names(shape)}
    return [*(["dense"] if needed & {*DENSE} else []), *(name for name in (*PACKED, PADDED) if name in needed)]


def is_tuned(cache: Path) -> bool:
    """Whether a cache has times of attention, by which the loader chooses, and not by the manifest's order."""
    from precast.loader.resolve.cache import Cache

    return bool(Cache(cache).op("attention").tuning)


def write(path: Path, rows: Sequence[Timed], lost: Mapping[str, str], *, tuned: bool) -> None:
    """The file with what was measured until now: in one step, since the run may be ended at any time."""
    report = {
        "tuned": tuned,
        "summary": summary(rows) if rows else {},
        "rows": [asdict(row) for row in rows],
        "missing": f"Not measured: {', '.join(lost)}." if lost else "",
        "reasons": dict(lost),
    }
    beside = path.with_name(f"{path.name}.part")
    beside.write_text(json.dumps(report, sort_keys=True, indent=1) + "\n")
    beside.replace(path)


def lines(row: Timed) -> Iterator[str]:
    """A row of the table, and what else is to be reported of it."""
    shown = f"{row.shape}{row.ours:>9.1f} us {row.teraflops:>6.0f} TFLOP/s  {row.peer} {row.peers[row.peer]:>9.1f}  "
    shown += f"ratio {row.ratio:.3f} (+-{row.spread:.3f})  {row.chosen}"
    took, best = row.best
    yield shown + (f"  of the best {took / row.ours:.3f} ({best})" if row.candidates else "")
    for name in row.without_graphs:
        yield f"  without graphs, as ours beside it: {name} {row.peers[name]:.1f}"
    for name, why in row.not_measured.items():
        yield f"  not measured: {name}: {why}"


if __name__ == "__main__":
    sys.exit(main())
