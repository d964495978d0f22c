"""Every variant of ``gemm`` in a cache beside torch's: ``python benchmarks/gemm_candidates.py CACHE --json FILE``.

Needs a GPU, torch and the loader, and no compiler. Each library's variants are measured in a process of its own: at
each size on the same matrices as ``torch.mm``, in CUDA graphs, with a cold L2 cache. One that hangs, faults or is wrong
costs itself alone: it is named, and the process starts again without it. Exit status 1: some are wrong or hang.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROWS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
LAYERS = (  # (n, k) of the linear layers of Llama 3 8B and 70B, and Qwen 3 32B
    (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (10240, 8192), (8192, 8192), (57344, 8192), (8192, 28672),
    (10240, 5120), (5120, 8192), (51200, 5120), (5120, 25600),
)  # fmt: skip
ODD = (  # sizes at which tiles are cut short, whose results are compared with float64
    (1, 8, 8), (3, 72, 264), (17, 264, 1000), (65, 520, 72), (129, 1032, 520), (200, 136, 2056), (300, 1048, 712),
)  # fmt: skip
FLUSH = 256 << 20  # bytes: more than any GPU's L2 cache
SILENCE = 60.0  # seconds in which a process says nothing before it counts as hanging
MOST = 16  # this project's tiles are left out where m has more than so many of them, or is less than a fourth of one


@dataclass(frozen=True)
class Size:
    """One product."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


def sizes(given: list[str], rows: str = "") -> list[Size]:
    """Those given as ``m,n,k``, else every layer at every number of rows, in an order whose start is a fair sample."""
    if given:
        return [Size(*map(int, text.split(","))) for text in given]
    every = [Size(m, n, k) for n, k in LAYERS for m in (map(int, rows.split(",")) if rows else ROWS)]
    random.Random(0).shuffle(every)
    return every


def tuned(config: Mapping[str, Any]) -> str:
    """What tells a variant from the others, short."""
    rest = {"cluster": [1, 1], "split": 1, "residents": 1, "swizzle": 0, "pingpong": False, "swap": False}
    words = [str(config["library"]), "x".join(map(str, config["tile"]))]
    for name, usual in rest.items():
        value = list(config[name]) if name == "cluster" else config[name]
        if value != usual:
            words.append(name if value is True else f"{name}={value}".replace(" ", ""))
    return " ".join(words)


def variants(cache: Path, config: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The configs of a cache's variants that have these dtypes and plain layouts, by short names."""
    os.environ["PRECAST_CACHE_PATH"] = str(cache)
    from precast import loader

    plain = {**config, "batched": False, "epilogue": "", "b_major": "k", "a_major": "k", "out_major": "n"}
    found = [dict(v.artifact.config) for v in loader.variants("gemm") if str(v.artifact.target) == "sm_90a"]
    return {tuned(c): c for c in found if all(c[name] == value for name, value in plain.items())}


# What runs in a child process.


def measure(cache: Path, names: list[str], config: dict[str, Any], asked: list[Size], until: float) -> None:
    """Check and time some variants, and print a line of JSON before and after each."""
    configs = variants(cache, config)
    from precast import loader

    kernels = {}
    for name in names:
        say(at=name)
        kernels[name] = loader.get("gemm", configs[name])
    import torch

    dtypes = tuple(getattr(torch, str(config[name])) for name in ("dtype", "out_dtype"))
    step = 16 // dtypes[0].itemsize  # what divides k
    for m, n, k in ODD:
        check(Size(m, n, -(-k // step) * step), kernels, dtypes)
    flush = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    for size in asked:
        if time.time() > until:
            say(stopped=str(size))
            return
        compare(size, kernels, dtypes, flush)
    say(done=True)


def compare(size: Size, kernels: dict[str, Any], dtypes: Any, flush: Any) -> None:
    """Time torch and each variant on the same matrices."""
    a, b, out = matrices(size, dtypes)
    say(at=None)
    expected = a.to(dtypes[0]) @ b if dtypes[0].itemsize > 1 else scaled(a, b, dtypes[1])
    theirs = torch_call(a, b, dtypes[1])
    first = microseconds(theirs, flush)
    times: dict[str, float] = {}
    for name, kernel in kernels.items():
        if left_out(name, size):
            continue
        say(at=name, size=str(size))
        out.fill_(math.nan)
        kernel(a, b, out)
        wrong = differs(out, expected.to(dtypes[1]), dtypes[0])
        if wrong:
            say(wrong=name, size=str(size), what=wrong)
            continue
        times[name] = microseconds(lambda kernel=kernel: kernel(a, b, out), flush)
    say(at=None)
    say(size=str(size), torch=min(first, microseconds(theirs, flush)), times=times)


def left_out(name: str, size: Size) -> bool:
    """Whether a tile is so much shorter or longer than m that nobody would take it."""
    rows = int(name.split()[1].split("x")[0])
    return name.startswith("precast ") and (size.m > MOST * rows or 4 * max(size.m, 16) < rows)


def matrices(size: Size, dtypes: Any, padding: int = 0) -> tuple[Any, Any, Any]:
    """``a``, ``b`` k-major, and ``out``, with rows that may be further apart than they are long."""
    import torch

    torch.manual_seed(0)
    scale, step = size.k**-0.25, 16 * padding

    def rows(count: int, length: int, dtype: Any) -> Any:
        whole = torch.empty(count, length + step, device="cuda", dtype=dtype)
        return whole[:, :length]

    a, w = (rows(count, size.k, dtypes[0]) for count in (size.m, size.n))
    for one in (a, w):
        one.copy_(torch.randn(one.shape, device="cuda", dtype=torch.bfloat16) * scale)
    return a, w.T, rows(size.m, size.n, dtypes[1])


def torch_call(a: Any, b: Any, dtype: Any) -> Any:
    """torch's own product of the same matrices, into memory that is there already."""
    import torch

    if a.dtype.itemsize == 1:
        return lambda: scaled(a, b, dtype)
    out = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=a.dtype)
    return lambda: torch.mm(a, b, out=out)


def scaled(a: Any, b: Any, dtype: Any) -> Any:
    """torch's product of eight-bit matrices."""
    import torch

    one = torch.ones((), device="cuda")
    return torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=dtype, use_fast_accum=True)


def check(size: Size, kernels: dict[str, Any], dtypes: Any) -> None:
    """Compare each variant with float64 at one odd size, and look for writes beside the result."""
    import torch

    a, b, out = matrices(size, dtypes, padding=1)
    expected = a.double() @ b.double()
    error = 2.0**-4 if dtypes[0].itemsize == 1 else 2.0**-11
    half = torch.finfo(dtypes[1]).eps
    whole = out.as_strided((size.m, out.stride(0)), (out.stride(0), 1))
    for name, kernel in kernels.items():
        say(at=name, size=str(size))
        results = []
        for _ in range(2):
            whole.fill_(math.nan)
            kernel(a, b, out)
            results.append(out.clone())
        far = (results[0].double() - expected).abs() > error + half * expected.abs()
        if far.any() or results[0].isnan().any():
            say(wrong=name, size=str(size), what=f"{int(far.sum() + results[0].isnan().sum())} of {far.numel()}")
        elif not torch.equal(*results):
            say(wrong=name, size=str(size), what="another result the second time")
        elif not whole[:, size.n :].isnan().all():
            say(wrong=name, size=str(size), what="it writes beside the result")
    say(at=None)


def differs(out: Any, expected: Any, dtype: Any) -> str | None:
    """How a large result differs from torch's by more than two roundings, or None."""
    import torch

    half = max(torch.finfo(one).eps for one in (out.dtype, dtype))  # torch may store its own in the inputs' dtype
    worst = 0
    for ours, theirs in zip(out.split(1024), expected.split(1024), strict=True):
        far = (ours.float() - theirs.float()).abs() > 2.0**-9 + 2 * half * theirs.float().abs()
        worst += int((far | ours.isnan()).sum())
    return f"{worst} of {out.numel()}" if worst else None


def microseconds(call: Any, flush: Any) -> float:
    """The median of launches with a cold L2 cache, each a CUDA graph of the call alone."""
    import torch

    call()
    torch.cuda.synchronize()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    launches = max(3, min(10, int(20.0 / max(start.elapsed_time(end), 1e-3))))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    marks = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(launches)]
    for before, after in marks:
        flush.zero_()
        before.record()
        graph.replay()
        after.record()
    torch.cuda.synchronize()
    return statistics.median(before.elapsed_time(after) for before, after in marks) * 1e3


def say(**what: Any) -> None:
    """A line to the process that started this one."""
    print(json.dumps(what), flush=True)


# What runs in the process that was started by hand.


def lines(command: list[str]) -> Iterator[dict[str, Any]]:
    """What a child process says, until it ends; a last word where it ends badly or is silent for too long."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    heard: queue.Queue[str | None] = queue.Queue()
    errors: list[str] = []

    def listen() -> None:
        assert child.stdout
        for line in child.stdout:
            heard.put(line)
        heard.put(None)

    def keep() -> None:
        assert child.stderr
        errors.extend(child.stderr)

    threads = [threading.Thread(target=work, daemon=True) for work in (listen, keep)]
    for thread in threads:
        thread.start()
    try:
        while True:
            line = heard.get(timeout=SILENCE)
            if line is None:
                break
            if line.startswith("{"):
                yield json.loads(line)
        if child.wait():
            threads[1].join(5)
            yield {"failed": "".join(errors).strip().splitlines()[-1:] or [f"exit status {child.returncode}"]}
    except queue.Empty:
        yield {"failed": [f"silent for {SILENCE:.0f} s"]}
    finally:
        child.kill()
        child.wait()


def group(arguments: argparse.Namespace, names: list[str], until: float, found: dict[str, Any]) -> None:
    """Measure some variants in child processes, each without those that ended the one before."""
    left = list(names)
    while left:
        done = {size for size, row in found["sizes"].items() if set(row["times"]) & set(names)}
        rest = [s for s in sizes(arguments.size, arguments.rows) if str(s) not in done]
        if not rest:
            return
        command = [sys.executable, __file__, str(arguments.cache), "--child", json.dumps(left), "--until", str(until)]
        command += ["--dtype", arguments.dtype, "--out-dtype", arguments.out_dtype]
        command += [word for s in rest for word in ("--size", f"{s.m},{s.n},{s.k}")]
        at: dict[str, Any] = {}
        failed: Any = None
        for line in lines(command):
            if "times" in line:
                row = found["sizes"].setdefault(line["size"], {"torch": line["torch"], "times": {}, "ratios": {}})
                row["times"].update(line["times"])
                row["ratios"].update({name: line["torch"] / took for name, took in line["times"].items()})
                row["torch"] = min(row["torch"], line["torch"])
            elif "wrong" in line:
                found["wrong"].append(line)
                print("WRONG", line, flush=True)
            elif "failed" in line:
                failed = line["failed"]
            elif "at" in line:
                at = line
        if failed is None:
            return
        found["wrong"].append({"wrong": at.get("at"), "size": at.get("size"), "what": failed})
        print("FAILED", at, failed, flush=True)
        if at.get("at") not in left:
            return  # not one variant's fault: nothing is gained by another try
        left.remove(at["at"])


def report(found: dict[str, Any]) -> None:
    """Print the best of each library at each size, the best of all, and which variants are needed for it."""
    rows = found["sizes"]
    wrong = {line["wrong"] for line in found["wrong"]}
    best: dict[str, list[float]] = {}
    print(f"{'m x n x k':<20}{'torch us':>10}  {'best of':<10}", flush=True)
    for name in sorted(rows, key=lambda text: tuple(map(int, text.split("x")))):
        ratios = {v: r for v, r in rows[name]["ratios"].items() if v not in wrong}
        if not ratios:
            continue
        tops: dict[str, tuple[float, str]] = {}
        for variant, ratio in ratios.items():
            library = variant.split()[0]
            tops[library] = max(tops.get(library, (0.0, "")), (ratio, variant))
        tops["all"] = max(tops.values())
        for library, (ratio, _) in tops.items():
            best.setdefault(library, []).append(ratio)
        shown = "  ".join(f"{library} {ratio:.3f}" for library, (ratio, _) in sorted(tops.items()))
        print(f"{name:<20}{rows[name]['torch']:>10.1f}  {shown}  <- {tops['all'][1]}")
    for library, ratios_ in sorted(best.items()):
        mean = math.exp(statistics.fmean(map(math.log, ratios_)))
        print(f"{library:<10} {mean:.4f} of torch's speed in the mean, least {min(ratios_):.3f}, {len(ratios_)} sizes")
    print(f"{len(wrong)} variants wrong or hanging")
    needed(rows, wrong)


def needed(rows: Mapping[str, Any], wrong: set[Any]) -> None:
    """Print variants, each the one that helps most after those before it, and what they reach together."""
    tables = [{v: r for v, r in row["ratios"].items() if v not in wrong} for row in rows.values()]
    tables = [t for t in tables if t]
    reached = [0.2] * len(tables)
    for _ in range(24):
        gains: dict[str, float] = {}
        for table, so_far in zip(tables, reached, strict=True):
            for variant, ratio in table.items():
                gains[variant] = gains.get(variant, 0.0) + max(0.0, math.log(ratio / so_far))
        top = max(gains, key=lambda v: gains[v], default="")
        if gains.get(top, 0.0) < 1e-3:
            return
        reached = [max(r, t.get(top, 0.0)) for r, t in zip(reached, tables, strict=True)]
        mean = math.exp(statistics.fmean(map(math.log, reached)))
        print(f"  + {top:<50} {mean:.4f}, least {min(reached):.3f}")


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--out-dtype", default="bfloat16")
    parser.add_argument("--size", action="append", default=[], help="m,n,k; may be given again")
    parser.add_argument("--rows", default="", help="numbers of rows, with commas between them, for every layer")
    parser.add_argument("--only", default="", help="the variants whose names have this in them")
    parser.add_argument("--seconds", type=float, default=240.0, help="for all; each library has its share")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=math.inf, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    config = {"dtype": arguments.dtype, "out_dtype": arguments.out_dtype}
    if arguments.child:
        measure(arguments.cache, json.loads(arguments.child), config, sizes(arguments.size), arguments.until)
        return 0
    names = [name for name in variants(arguments.cache, config) if arguments.only in name]
    libraries = sorted({name.split()[0] for name in names})
    found: dict[str, Any] = {"sizes": {}, "wrong": []}
    start = time.time()
    share = 0
    for library in libraries:
        mine = [name for name in names if name.startswith(library + " ")]
        share += len(mine)
        group(arguments, mine, start + arguments.seconds * share / len(names), found)
        print(f"{library}: {len(mine)} variants, {time.time() - start:.0f} s", flush=True)
        if arguments.json:
            arguments.json.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    report(found)
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
