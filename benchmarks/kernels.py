"""Kernels out of a cache beside torch's own, on one GPU in one run: ``python benchmarks/kernels.py [--json FILE]``.

Each pair is timed in turns, over buffers larger than the L2 cache, by CUDA events; what is printed is the median. An op
that no installed cache holds is left out, and that is said. Exit status 1: a ratio is below its bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from precast import loader
from precast.loader.errors import OpNotFound, VariantNotFound

ROUNDS, REPEATS = 30, 5
Call = Callable[[int], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One measured pair: rates in a unit, ours over theirs, and the bound that was promised."""

    what: str
    ours: float
    theirs: float
    unit: str
    peer: str
    least: float

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.theirs

    def __str__(self) -> str:
        verdict = "ok" if self.ratio >= self.least else "BELOW"
        return (
            f"{self.what:<58} {self.ours:8.1f} {self.unit:<7} {self.peer} {self.theirs:8.1f}  "
            f"ratio {self.ratio:.3f}, at least {self.least:g}: {verdict}"
        )


def seconds(*calls: Call) -> list[float]:
    """The median time of each call, measured in turns; a call is given the number of the buffer to use."""
    for call in calls:
        for turn in range(3):
            call(turn)
    times: list[list[float]] = [[] for _ in calls]
    for turn in range(ROUNDS):
        for call, taken in zip(calls, times, strict=True):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for repeat in range(REPEATS):
                call(turn * REPEATS + repeat)
            end.record()
            end.synchronize()
            taken.append(start.elapsed_time(end) / 1e3 / REPEATS)
    return [sorted(taken)[len(taken) // 2] for taken in times]


def gemm() -> Iterator[Ratio]:
    """A product of 8192 cubed: the author's first choice, and the best of the tuned ones."""
    n = 8192
    config = {"dtype": torch.bfloat16, "out_dtype": torch.bfloat16}
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out, other = torch.empty_like(a), torch.empty_like(a)
    first = loader.get("gemm", config)
    choices = [first]
    for v in loader.variants("gemm"):
        wanted = {**v.artifact.config, "tile": first.config["tile"], "cluster": first.config["cluster"]}
        if wanted == dict(first.config) and v.artifact.target == first.target:
            choices.append(loader.get("gemm", dict(v.artifact.config)))
    timed = [(seconds(lambda i, k=k: k(a, b.T, out))[0], k) for k in choices]
    best = min(timed, key=lambda pair: pair[0])[1]
    for label, kernel in (("first choice", first), ("best variant", best)):
        ours, theirs = seconds(lambda i, k=kernel: k(a, b.T, out), lambda i: torch.mm(a, b.T, out=other))
        flops = 2 * n**3 / 1e12
        tile, cluster = kernel.config["tile"], kernel.config["cluster"]
        what = f"gemm 8192 cubed bf16, {label} {tile} {cluster}"
        least = 1.0 if label == "best variant" else 0.0
        yield Ratio(what=what, ours=flops / ours, theirs=flops / theirs, unit="TFLOP/s", peer="torch.mm", least=least)


def attention() -> Iterator[Ratio]:
    """Causal attention: 4 sequences of 8192, 16 query and 4 key heads of 128. The first choice, and the best."""
    batch, length, heads, kv_heads, size = 4, 8192, 16, 4, 128
    config = {"dtype": "bfloat16", "head_dim": size, "heads_per_kv": heads // kv_heads, "causal": True, "lse": True}
    q, out = (torch.randn(batch, length, heads, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    k, v = (torch.randn(batch, length, kv_heads, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    lse = torch.empty(batch, heads, length, device="cuda")
    given = {"q": q, "k": k, "v": v, "out": out, "lse": lse, "softmax_scale": size**-0.5}
    qt, kt, vt = (x.transpose(1, 2) for x in (q, k, v))
    first = loader.get("attention", config)
    choices = ("two_cta", "pack", "keys_tile", "queries_tile")
    same = [
        v
        for v in loader.variants("attention")
        if all(v.config[name] == first.config[name] for name in v.config if name not in choices)
    ]
    kernels = [loader.get("attention", v.config) for v in same if v.target == first.target]
    timed = seconds(*[lambda i, f=kernel: f(**given) for kernel in kernels])
    best = min(zip(timed, kernels, strict=True), key=lambda pair: pair[0])[1]
    attend = torch.nn.functional.scaled_dot_product_attention
    flops = 4 * batch * heads * length * length * size / 2 / 1e12
    for label, kernel in (("first choice", first), ("best variant", best)):
        ours, theirs = seconds(
            lambda i, f=kernel: f(**given), lambda i: attend(qt, kt, vt, is_causal=True, enable_gqa=True)
        )
        what = f"attention 4x8192 causal bf16, 16 over 4 heads, {label}"
        least = 1.2 if label == "best variant" else 0.0
        yield Ratio(what=what, ours=flops / ours, theirs=flops / theirs, unit="TFLOP/s", peer="torch", least=least)


def norms() -> Iterator[Ratio]:
    """RMSNorm of 32768 rows of 4096 against a device copy of the same matrix."""
    rows, hidden = 32768, 4096
    xs = [torch.randn(rows, hidden, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    out, weight = torch.empty_like(xs[0]), torch.randn(hidden, device="cuda", dtype=torch.bfloat16)
    gigabytes = 2 * rows * hidden * 2 / 1e9
    for op in ("rmsnorm", "flashinfer.rmsnorm"):
        try:
            kernel = loader.get(op, {"dtype": torch.bfloat16, "hidden": hidden})
        except (OpNotFound, VariantNotFound) as error:
            print(f"{op} is left out: {type(error).__name__}")
            continue
        given = {"x": None, "weight": weight, "out": out, "eps": 1e-6, "rows": rows}
        named = {name: given[name] for name in kernel.names if name in given}
        plain = {**{a.name: a.none_value for a in kernel.signature.passed if a.always_none}, **named}
        calls = [tuple({**plain, "x": x}[name] for name in kernel.names if name in plain or name == "x") for x in xs]
        ours, theirs = seconds(lambda i, k=kernel, c=calls: k(*c[i % 3]), lambda i: out.copy_(xs[i % 3]))
        what, least = f"{op} 32768x4096 bf16", 0.93
        yield Ratio(what=what, ours=gigabytes / ours, theirs=gigabytes / theirs, unit="GB/s", peer="copy", least=least)


def main() -> int:
    """Measure everything that the installed caches hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {len(loader.ops())} ops")
    found: list[Ratio] = []
    for part in (gemm, attention, norms):
        try:
            for ratio in part():
                print(ratio, flush=True)
                found.append(ratio)
        except (OpNotFound, VariantNotFound) as error:
            print(f"{part.__name__} is left out: {type(error).__name__}")
    if options.json:
        options.json.write_text(json.dumps([{**asdict(r), "ratio": r.ratio} for r in found], indent=1) + "\n")
    return 1 if any(r.ratio < r.least for r in found) else 0


if __name__ == "__main__":
    sys.exit(main())
