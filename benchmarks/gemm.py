"""Matrix products of layers that no tuning saw, beside torch's: ``python benchmarks/gemm.py CACHE [--json FILE]``.

The 100 sizes are those of ``gemm-unseen.yaml``: 25 layers, with m from 1 to 16384. At each, the variant that
``loader.get`` chooses for the size is timed in turns with torch's products of the same inputs: CUDA graphs, a cold L2
cache. The peer is the fastest of torch's default, cuBLAS and cuBLASLt. With ``--candidates`` every variant of the
config is timed, too, and what the best of them would have given is printed beside the choice. ``--dtype float8_e4m3fn``
is compared with ``torch._scaled_mm`` with scales of 1. Before each launch another kernel fills the cache, with lines
that are still to be written to memory; with ``--written-back`` they are written, and a launch pays for its own alone. A
model leaves some of both. It needs torch and the loader, no compiler. What fails is reported and skipped; FILE is
written after every size.

With ``--candidates`` one to two minutes on an H200. Exit status 1: nothing could be timed.
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
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

from tuned_variants import alternatives

LAUNCHES, FEW = 15, 3
NEAR = 1.15  # of the best in a first look: what is looked at again
SLOW, HOST = 1.3, 60.0  # times the chosen variant's first launch, and microseconds of the host: what is not looked at
LAYERS = Path(__file__).with_name("gemm-unseen.yaml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """One product, and whose it is."""

    model: str
    layer: str
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One size: the microseconds of the variant that the loader chose, of torch, and of the best candidate.

    ``peer`` is the library by which torch was fastest, ``torch`` its time. ``ratio`` is that time over ours, the median
    over launches in turns, and ``spread`` half of its interquartile range. ``best`` is 0 without ``--candidates``.
    """

    size: Size
    ours: float
    torch: float
    ratio: float
    spread: float
    chosen: str
    peer: str = "torch"
    best: float = 0.0
    best_config: str = ""


def sizes(path: Path = LAYERS) -> list[Size]:
    """The sizes of a file of layers, those of equally many rows of all layers before those of more.

    >>> found = sizes()
    >>> len(found) == len(set(found)) >= 100, len({(size.n, size.k) for size in found}) >= 20
    (True, True)
    """
    import yaml

    layers = yaml.safe_load(path.read_text())["layers"]
    found = [Size(**{**layer, "m": m}) for layer in layers for m in layer["m"]]
    return sorted(found, key=lambda size: (size.m, size.n, size.k))


def geometric_mean(values: Sequence[float]) -> float:
    """The mean of ratios.

    >>> round(geometric_mean([0.5, 2.0]), 6)
    1.0
    """
    return exp(statistics.mean(log(value) for value in values))


def summary(rows: Sequence[Timed]) -> dict[str, float]:
    """The figures of a table: ratios of torch's time to ours, and how near the choice comes to the best candidate."""
    found = {
        "sizes": float(len(rows)),
        "geometric_mean": geometric_mean([row.ratio for row in rows]),
        "least": min(row.ratio for row in rows),
        "at_least_torch": sum(row.ratio + row.spread >= 1 for row in rows) / len(rows),
    }
    known = [row for row in rows if row.best]
    if known:
        found["of_best"] = geometric_mean([min(1.0, row.best / row.ours) for row in known])
        found["best_geometric_mean"] = geometric_mean([row.torch / min(row.best, row.ours) for row in known])
    return {name: round(value, 4) for name, value in found.items()}


def main(argv: list[str] | None = None) -> int:
    """Time every size that was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path, metavar="CACHE")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float16", "float8_e4m3fn"])
    parser.add_argument("--candidates", action="store_true", help="time every variant, too")
    parser.add_argument("--written-back", action="store_true", help="with a cache that was last read, not written")
    parser.add_argument("--layers", type=Path, default=LAYERS, metavar="FILE", help="other layers than the unseen ones")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(argv)
    os.environ["PRECAST_CACHE_PATH"] = str(options.cache.resolve())
    rows: list[Timed] = []
    with contextlib.suppress(Exception):  # where this fails, each size says why
        warm_up()
    begun = time.monotonic()
    for size in sizes(options.layers):
        try:
            rows.append(timed(size, options.dtype, options.candidates, options.written_back))
        except Exception as error:  # of this size alone, unless the GPU has faulted
            print(f"{named(size)}: left out: {type(error).__name__}: {str(error)[:300]}", flush=True)
            continue
        print(line(rows[-1]), flush=True)
        if options.json:
            report = {
                "dtype": options.dtype,
                "written_back": options.written_back,
                "summary": summary(rows),
                "rows": [asdict(row) for row in rows],
            }
            options.json.write_text(json.dumps(report, sort_keys=True, indent=1) + "\n")
    if not rows:
        return 1
    print(f"{summary(rows)} in {time.monotonic() - begun:.0f} s")
    return 0


def warm_up() -> None:
    """Some tenths of a second of work: an idle GPU has a low clock."""
    import torch

    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    for _ in range(1000):
        a @ a
    torch.cuda.synchronize()


def timed(size: Size, dtype: str, with_candidates: bool, written_back: bool = False) -> Timed:
    """Time one size; its tensors are gone when this returns."""
    from precast import loader
    from precast.measure.timing import timer

    a, b, out, config, theirs = inputs(size, dtype)
    problem = {"m": size.m, "n": size.n, "k": size.k}
    ours = loader.get("gemm", config, problem=problem)
    kernels = {text(ours.config): ours}
    if with_candidates:
        most = SLOW * timer.once(lambda: ours(a, b, out), "cuda") + HOST
        quick = lambda kernel: timer.once(lambda: kernel(a, b, out), "cuda") <= most  # noqa: E731
        kernels = {**candidates(ours, config, quick), **kernels}
    calls = {name: (lambda kernel=kernel: kernel(a, b, out)) for name, kernel in kernels.items()}
    cold = partial(timer.cold, device="cuda", written_back=written_back)
    chosen = text(ours.config)
    if len(calls) > 1:
        first = {name: min(times) for name, times in zip(calls, cold([*calls.values()], launches=FEW), strict=True)}
        near = NEAR * min(first.values())
        calls = {name: call for name, call in calls.items() if name == chosen or first[name] <= near}
    found = cold([*calls.values(), *theirs.values()], launches=LAUNCHES)
    times = dict(zip(calls, found[: len(calls)], strict=True))
    peers = dict(zip(theirs, found[len(calls) :], strict=True))
    peer = min(peers, key=lambda name: statistics.median(peers[name]))
    torch_times = peers[peer]
    ratios = sorted(other / own for own, other in zip(times[chosen], torch_times, strict=True))
    quarter = len(ratios) // 4
    medians = {name: statistics.median(values) for name, values in times.items()}
    best = min(medians, key=lambda name: medians[name])
    return Timed(
        size=size,
        ours=round(medians[chosen], 3),
        torch=round(statistics.median(torch_times), 3),
        ratio=round(statistics.median(ratios), 4),
        spread=round((ratios[-1 - quarter] - ratios[quarter]) / 2, 4),
        chosen=chosen,
        peer=peer,
        best=round(medians[best], 3) if with_candidates else 0.0,
        best_config=best if with_candidates else "",
    )


def inputs(size: Size, dtype: str) -> tuple[Any, Any, Any, dict[str, object], dict[str, Callable[[], Any]]]:
    """``a`` (m, k), ``b`` (k, n) with k contiguous, ``out``, the config of ``gemm``, and torch's products."""
    import torch

    numbers = torch.float8_e4m3fn if dtype.startswith("float8") else getattr(torch, dtype)
    stored = torch.bfloat16 if dtype.startswith("float8") else numbers
    scale = size.k**-0.25
    a = (torch.randn(size.m, size.k, device="cuda", dtype=torch.bfloat16) * scale).to(numbers)
    b = (torch.randn(size.n, size.k, device="cuda", dtype=torch.bfloat16) * scale).to(numbers).T
    out = torch.empty(size.m, size.n, device="cuda", dtype=stored)
    other = torch.empty_like(out)
    config: dict[str, object] = {"dtype": numbers, "out_dtype": stored}
    if numbers is stored:
        product = lambda: torch.mm(a, b, out=other)  # noqa: E731
        by_library = {f"torch by {name}": by(name.lower(), product) for name in ("cuBLAS", "cuBLASLt")}
        return a, b, out, config, {"torch": product, **by_library}
    one = torch.ones((), device="cuda")
    fast = {"scale_a": one, "scale_b": one, "out_dtype": stored, "use_fast_accum": True, "out": other}
    return a, b, out, config, {"torch": lambda: torch._scaled_mm(a, b, **fast)}  # cuBLASLt alone has it


def by(library: str, product: Callable[[], Any]) -> Callable[[], Any]:
    """A product by one of torch's libraries; torch's own choice is as before after each call."""
    import torch

    def call() -> Any:
        before = torch.backends.cuda.preferred_blas_library()
        torch.backends.cuda.preferred_blas_library(library)
        try:
            return product()
        finally:
            torch.backends.cuda.preferred_blas_library(before)

    return call


def candidates(chosen: Any, config: Mapping[str, object], quick: Callable[[Any], bool]) -> dict[str, Any]:
    """Every variant that differs from the chosen one in tuned keys alone, takes these inputs, and is quick enough."""
    import torch

    from precast import loader

    found: dict[str, Any] = {}
    for artifact in alternatives("gemm", chosen):
        try:
            kernel = loader.get("gemm", dict(artifact.config))
            fits = quick(kernel)
            torch.cuda.synchronize()
            if fits:
                found[text(kernel.config)] = kernel
        except Exception as error:
            print(f"  left out: {text(artifact.config)}: {type(error).__name__}: {str(error)[:200]}", flush=True)
    return found


def text(config: Mapping[str, Any]) -> str:
    """A config on one line, without what no kernel of these is told apart by."""
    return ", ".join(f"{name}: {value}" for name, value in config.items() if value not in ("", None, False))


def named(size: Size) -> str:
    """A size, for people."""
    return f"{size.model:<18}{size.layer:<8}{size.m:>6} x {size.n:>5} x {size.k:>5}"


def line(row: Timed) -> str:
    """A row of the table."""
    size = row.size
    rate = 2 * size.m * size.n * size.k / row.ours / 1e6
    shown = f"{named(size)}  {row.ours:>9.1f} us {rate:>6.0f} TFLOP/s  torch {row.torch:>9.1f}  "
    shown += f"ratio {row.ratio:.3f} (+-{row.spread:.3f}) to {row.peer}"
    return shown + (f"  of the best {min(1.0, row.best / row.ours):.3f}" if row.best else "")


if __name__ == "__main__":
    sys.exit(main())
