"""Attention at shapes that no tuning saw, beside torch's: ``python benchmarks/attention.py CACHE [--json FILE]``.

The shapes are those of ``attention-unseen.yaml``: from many short sequences to a long one, with a mask and without,
dense and packed. At each, the variant that ``loader.get`` chooses for the problem is timed in turns with torch's
attention of the same inputs: CUDA graphs, a cold L2 cache, medians. The peer is the fastest of torch's own choice,
cuDNN and FlashAttention, each requested by name (``attention_peers.py``). Some rows are compared with float32.
With ``--candidates`` every variant of the config is timed, too, and the best is printed beside the choice. It needs
torch, yaml and the loader, no compiler. What fails is reported and skipped; FILE is written after every shape.

About 60 seconds on an H200, with ``--candidates`` some minutes. Exit status 1: nothing was timed, or a result is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from pathlib import Path
from typing import Any

from attention_peers import peers, usable
from attention_shapes import SHAPES, Shape, config, inputs, logarithms, shapes, wrong
from tuned_variants import alternatives

LAUNCHES, FEW = 15, 3
NEAR = 1.1  # of the best in a first look: what is looked at again
USUAL = ("", None, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One shape: the microseconds of the variant that the loader chose, of each peer, and of each candidate.

    ``ratio`` is the time of the fastest peer over ours, the median over launches in turns, and ``spread`` half of its
    interquartile range. ``candidates`` is empty without ``--candidates``.
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

    @property
    def best(self) -> tuple[float, str]:
        """The time of the fastest variant, and which it is."""
        return min([(self.ours, self.chosen), *((took, name) for name, took in self.candidates.items())])


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
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    os.environ["PRECAST_CACHE_PATH"] = str(options.cache.resolve())
    rows: list[Timed] = []
    mistakes = 0
    with contextlib.suppress(Exception):  # where this fails, each shape says why
        warm_up()
    begun = time.monotonic()
    for shape in shapes(options.shapes):
        try:
            rows.append(timed(shape, options.candidates))
        except Exception as error:  # of this shape alone, unless the GPU has faulted
            mistakes += isinstance(error, WrongResult)
            print(f"{shape} left out: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        print(line(rows[-1]), flush=True)
        if options.json:
            report = {"summary": summary(rows), "rows": [asdict(row) for row in rows]}
            options.json.write_text(json.dumps(report, sort_keys=True, indent=1) + "\n")
    if not rows:
        return 1
    print(f"{summary(rows)} in {time.monotonic() - begun:.0f} s")
    return 1 if mistakes else 0


class WrongResult(Exception):
    """The chosen variant's result is wrong."""


def warm_up() -> None:
    """Some tenths of a second of work: an idle GPU has a low clock."""
    import torch

    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(1000):
        a @ a
    torch.cuda.synchronize()


def timed(shape: Shape, with_candidates: bool) -> Timed:
    """Time one shape; its tensors are gone when this returns."""
    from precast import loader
    from precast.kernels.authoring.timing import timer

    values = inputs(shape)
    kernel = loader.get("attention", config(shape), problem=shape.problem)
    if kernel.config["lse"]:  # a variant with one more output serves, too
        values["lse"] = logarithms(shape)
    if reason := mistake(kernel, shape, values):
        raise WrongResult(reason)
    chosen = text(kernel.config)
    kernels = {**(candidates(kernel, shape, values) if with_candidates else {}), chosen: kernel}
    calls = {name: call(kernel, values) for name, kernel in kernels.items()}
    first = dict(zip(calls, timer.cold([*calls.values()], "cuda", launches=FEW), strict=True))
    looked = {name: round(min(took), 3) for name, took in first.items()}
    near = NEAR * min(looked.values())
    calls = {name: run for name, run in calls.items() if name == chosen or looked[name] <= near}
    theirs = usable(peers(shape, values), print)
    if not theirs:
        raise RuntimeError("no peer runs")
    every = timer.cold([*calls.values(), *theirs.values()], "cuda", launches=LAUNCHES)
    times = dict(zip([*calls, *theirs], every, strict=True))
    medians = {name: round(statistics.median(took), 3) for name, took in times.items()}
    peer = min(theirs, key=lambda name: medians[name])
    ratio, spread = compared(times[peer], times[chosen])
    return Timed(
        shape=shape,
        ours=medians[chosen],
        teraflops=round(shape.operations / medians[chosen] / 1e6, 1),
        ratio=ratio,
        spread=spread,
        chosen=chosen,
        peer=peer,
        peers={name: medians[name] for name in theirs},
        candidates={**looked, **{name: medians[name] for name in calls}} if with_candidates else {},
    )


def compared(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, float]:
    """The median ratio of times that were taken in turns, and half of its interquartile range.

    >>> compared([2.0, 4.0, 3.0, 2.0], [1.0, 2.0, 1.0, 1.0])
    (2.0, 0.0)
    """
    ratios = sorted(other / own for own, other in zip(ours, theirs, strict=True))
    quarter = len(ratios) // 4
    return round(statistics.median(ratios), 4), round((ratios[-1 - quarter] - ratios[quarter]) / 2, 4)


def call(kernel: Any, values: Mapping[str, Any]) -> Callable[[], Any]:
    """A launch with what the kernel takes."""
    return lambda: kernel(**values)


def mistake(kernel: Any, shape: Shape, values: dict[str, Any]) -> str | None:
    """Launch a kernel, and say what is wrong with its result, or None."""
    import torch

    values["out"].fill_(float("nan"))
    kernel(**values)
    torch.cuda.synchronize()
    return wrong(shape, values)


def candidates(chosen: Any, shape: Shape, values: dict[str, Any]) -> dict[str, Any]:
    """Every variant that differs from the chosen one in tuned keys alone, and is right."""
    from precast import loader

    found: dict[str, Any] = {}
    for artifact in alternatives("attention", chosen):
        name = text(artifact.config)
        try:
            kernel = loader.get("attention", dict(artifact.config))
            reason = mistake(kernel, shape, values)
        except Exception as error:
            reason = f"{type(error).__name__}: {str(error)[:200]}"
        if reason:
            print(f"  left out: {name}: {reason}", flush=True)
        else:
            found[name] = kernel
    return found


def text(config: Mapping[str, Any]) -> str:
    """The tuned keys of a config on one line.

    >>> text({"dtype": "bfloat16", "pack": True, "queries_tile": 192, "keys_tile": None, "overlap": False})
    'pack, queries_tile: 192, overlap: False'
    """
    words = []
    for name in ("pack", "queries_tile", "keys_tile", "stages", "resident", "overlap", "two_cta"):
        value = config.get(name)
        if name == "overlap" and value is False:
            words.append("overlap: False")
        elif value not in USUAL and name != "overlap":
            words.append(name if value is True else f"{name}: {value}")
    return ", ".join(words) or "plain"


def line(row: Timed) -> str:
    """A row of the table."""
    shown = f"{row.shape}{row.ours:>9.1f} us {row.teraflops:>6.0f} TFLOP/s  {row.peer} {row.peers[row.peer]:>9.1f}  "
    shown += f"ratio {row.ratio:.3f} (+-{row.spread:.3f})  {row.chosen}"
    took, best = row.best
    return shown + (f"  of the best {took / row.ours:.3f} ({best})" if row.candidates else "")


if __name__ == "__main__":
    sys.exit(main())
