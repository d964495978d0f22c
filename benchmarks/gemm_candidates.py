"""Every variant of ``gemm`` in a cache beside torch's: ``python benchmarks/gemm_candidates.py CACHE --json FILE``.

Needs a GPU, torch and the loader, and no compiler. The sizes are those of ``gemm-seen.yaml``: its layers, each at some
numbers of rows, in a random order, so that a run that was ended by ``--seconds`` is a fair sample; the next measures
those that FILE lacks. At each, the variants whose estimate is not hopeless are timed by CUDA graphs with a cold L2
cache: all with a few launches, then those near the best with more, in turns with torch, and their results are compared.
A time is the mean of two, of a cache full of what others wrote, and of what others read: a model leaves some of both.
They are measured in a process of its own: a variant that hangs or faults costs itself alone. It is named, and the
process starts again without it.
``benchmarks/gemm_choose.py`` makes a tuning file of FILE, and names the variants that it needs. Exit status 1: some are
wrong or hang.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAYERS = Path(__file__).with_name("gemm-seen.yaml")
ROWS = ((1, 16, 2), (17, 64, 2), (65, 256, 4), (257, 1024, 4), (1025, 4096, 1), (4097, 12288, 1))
"""How many numbers of rows of a layer are between two."""
ODD = (  # sizes at which tiles are cut short, whose results are compared with float64
    (1, 8, 8), (3, 72, 264), (17, 264, 1000), (65, 520, 72), (129, 1032, 520), (200, 136, 2056), (300, 1048, 712),
)  # fmt: skip
SILENCE = 60.0  # seconds in which a process says nothing before it counts as hanging
FEW, MORE = 2, 6  # launches, of each kind
HOPELESS, SLOW, NEAR = 1.5, 1.6, 1.12  # times the best estimate, the best first launch, and the best of a first look
MOST = 24  # of those near the best are timed again


@dataclass(frozen=True)
class Size:
    """One product."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"


def sizes(path: Path = LAYERS, seed: int = 0) -> list[Size]:
    """The sizes of a file of layers, in a random order.

    >>> found = sizes()
    >>> found == sizes(), len(found) == len(set(found)), {one.m % 4 for one in found} == {0, 1, 2, 3}
    (True, True, True)
    """
    import yaml

    chance = random.Random(seed)
    found = []
    for n, k in yaml.safe_load(path.read_text())["layers"]:
        for least, most, count in ROWS:
            for m in {round(2 ** chance.uniform(math.log2(least), math.log2(most))) for _ in range(count)}:
                found.append(Size(m if chance.random() < 0.5 else max(least, m // 8 * 8), n, k))
    found = list(dict.fromkeys(found))
    chance.shuffle(found)
    return found


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


def estimate(config: Mapping[str, Any], size: Size) -> float:
    """About how many microseconds a variant takes: what ``gemm_tiles`` says of a tile of its size."""
    from gemm_tiles import AT_ONCE, EMPTY, microseconds

    from precast.kernels.own.matrix.blocking import Blocking
    from precast.kernels.own.matrix.gemm_sm90a import blocking_of

    if config["library"] == "precast":
        return microseconds(blocking_of(config), size)  # type: ignore[arg-type]
    m, n = list(config["tile"])[:2]
    width = 1 if str(config["dtype"]).startswith("float8") else 2
    one = Blocking(tokens=m, rows=n, depth=128 // width, swap=bool(config["swap"]), width=width)
    whole = microseconds(one, size)  # type: ignore[arg-type]
    if not config["pingpong"]:
        return whole
    tiles = -(-size.m // m) * -(-size.n // n)  # two of them in turn on an SM share its tensor core
    return EMPTY + (whole - EMPTY) * max(0.5, min(1.0, tiles / (2 * AT_ONCE[1])))


def hopeful(configs: Mapping[str, Mapping[str, Any]], size: Size, hopeless: float = HOPELESS) -> list[str]:
    """The variants whose estimates are near the best of their library: those of two libraries cannot be compared."""
    found = {name: estimate(config, size) for name, config in configs.items()}
    best: dict[str, float] = {}
    for name, took in found.items():
        library = name.split()[0]
        best[library] = min(took, best.get(library, took))
    return [name for name, took in found.items() if took <= best[name.split()[0]] * hopeless]


# What runs in a child process.


def measure(
    cache: Path, names: list[str], config: dict[str, Any], asked: list[Size], until: float, hopeless: float
) -> None:
    """Check and time some variants, and print lines of JSON."""
    known = variants(cache, config)
    configs = {name: known[name] for name in names}
    from precast import loader

    kernels = {}
    for name in names:
        say(at=name)
        kernels[name] = loader.get("gemm", configs[name])
    import torch

    dtypes = tuple(getattr(torch, str(config[name])) for name in ("dtype", "out_dtype"))
    step = 16 // dtypes[0].itemsize  # what divides k
    for m, n, k in ODD:
        for name in check(Size(m, n, -(-k // step) * step), kernels, dtypes):
            kernels.pop(name), configs.pop(name)
    for size in asked:
        if time.time() > until:
            say(stopped=str(size))
            return
        compare(size, {name: kernels[name] for name in hopeful(configs, size, hopeless)}, dtypes)
    say(done=True)


def compare(size: Size, kernels: dict[str, Any], dtypes: Any) -> None:
    """Time torch and each variant on the same matrices."""
    from precast.measure.timing import timer

    a, b, out = matrices(size, dtypes)
    say(at=None)
    calls = {name: (lambda kernel=kernel: kernel(a, b, out)) for name, kernel in kernels.items()}
    first: dict[str, float] = {}
    best = math.inf
    for name, call in calls.items():
        say(at=name, size=str(size))
        once = timer.once(call, "cuda")  # with some of the host's time
        if once <= SLOW * best + 60.0:
            first[name] = cold([call], FEW, min)[0]
            best = min(best, first[name])
    near = sorted((n for n, took in first.items() if took <= NEAR * best), key=first.__getitem__)[:MOST]
    theirs = torch_call(a, b, dtypes[1])
    say(at=None)
    found = cold([*(calls[name] for name in near), theirs], MORE, statistics.median)
    times = dict(zip(near, found, strict=False))
    least = max(times.values())
    times = {**{name: max(took, least) for name, took in first.items()}, **times}
    expected = theirs().to(dtypes[1])
    for name in near:
        say(at=name, size=str(size))
        out.fill_(math.nan)
        calls[name]()
        wrong = differs(out, expected, dtypes[0])
        if wrong:
            say(wrong=name, size=str(size), what=wrong)
            del times[name]
    say(at=None)
    rounded = {name: round(took, 2) for name, took in times.items()}
    say(size=str(size), torch=round(found[-1], 2), times=rounded)


def cold(calls: Sequence[Callable[[], Any]], launches: int, typical: Callable[[list[float]], float]) -> list[float]:
    """The time of each call: the mean of those with a cache to be written back, and with one that was only read."""
    from precast.measure.timing import timer

    replays = [timer.captured(call, "cuda").replay for call in calls]
    written, read = (
        timer.cold(replays, "cuda", launches=launches, written_back=back, graphs=False) for back in (False, True)
    )
    return [(typical(one) + typical(other)) / 2 for one, other in zip(written, read, strict=True)]


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

    out = torch.empty(a.shape[0], b.shape[1], device="cuda", dtype=dtype)
    if a.dtype.itemsize > 1:
        return lambda: torch.mm(a, b, out=out)
    one = torch.ones((), device="cuda")
    fast = {"scale_a": one, "scale_b": one, "out_dtype": dtype, "use_fast_accum": True, "out": out}
    return lambda: torch._scaled_mm(a, b, **fast)


def check(size: Size, kernels: dict[str, Any], dtypes: Any) -> list[str]:
    """Compare each variant with float64 at one odd size, and look for writes beside the result; those that fail."""
    import torch

    a, b, out = matrices(size, dtypes, padding=1)
    expected = a.double() @ b.double()
    error = 2.0**-4 if dtypes[0].itemsize == 1 else 2.0**-11
    allowed = error + torch.finfo(dtypes[1]).eps * expected.abs()
    whole = out.as_strided((size.m, out.stride(0)), (out.stride(0), 1))
    failed = []
    for name, kernel in kernels.items():
        say(at=name, size=str(size))
        results = []
        for _ in range(2):
            whole.fill_(math.nan)
            kernel(a, b, out)
            results.append(out.clone())
        far = ((results[0].double() - expected).abs() > allowed) | results[0].isnan()
        what = f"{int(far.sum())} of {far.numel()}" if far.any() else ""
        what = what or ("" if torch.equal(*results) else "another result the second time")
        what = what or ("" if whole[:, size.n :].isnan().all() else "it writes beside the result")
        if what:
            say(wrong=name, size=str(size), what=what)
            failed.append(name)
    say(at=None)
    return failed


def differs(out: Any, expected: Any, dtype: Any) -> str | None:
    """How a large result differs from torch's by more than two roundings, or None.

    The tensor core adds products of eight bits with fewer bits than float32 has, and each kernel in its own order.
    """
    import torch

    half = max(torch.finfo(one).eps for one in (out.dtype, dtype))  # torch may store its own in the inputs' dtype
    error = 2.0**-5 if dtype.itemsize == 1 else 2.0**-9
    worst = 0
    for ours, theirs in zip(out.split(1024), expected.split(1024), strict=True):
        far = (ours.float() - theirs.float()).abs() > error + 2 * half * theirs.float().abs()
        worst += int((far | ours.isnan()).sum())
    return f"{worst} of {out.numel()}" if worst else None


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


def run(arguments: argparse.Namespace, names: list[str], found: dict[str, Any]) -> None:
    """Measure variants in child processes, each without those that ended the one before."""
    left, until = list(names), time.time() + arguments.seconds
    while left:
        least, most = arguments.rows
        rest = [s for s in sizes(arguments.layers) if str(s) not in found["sizes"] and least <= s.m <= most]
        if arguments.dtype.startswith("float8"):  # torch takes no others
            rest = [s for s in rest if s.n % 16 == 0 and s.k % 16 == 0]
        command = [sys.executable, __file__, str(arguments.cache), "--child", json.dumps(left), "--until", str(until)]
        command += ["--dtype", arguments.dtype, "--out-dtype", arguments.out_dtype]
        command += ["--hopeless", str(arguments.hopeless), "--sizes", json.dumps([[s.m, s.n, s.k] for s in rest])]
        at: dict[str, Any] = {}
        failed: Any = None
        for line in lines(command):
            if "times" in line:
                found["sizes"][line["size"]] = {"torch": line["torch"], "times": line["times"]}
                print(size_line(line), flush=True)
            elif "wrong" in line:
                found["wrong"].append(line)
                print("WRONG", line, flush=True)
            elif "failed" in line:
                failed = line["failed"]
            elif "at" in line:
                at = line
            if arguments.json and "times" in line and len(found["sizes"]) % 16 == 0:
                arguments.json.write_text(json.dumps(found) + "\n")
        if failed is None:
            break
        found["wrong"].append({"wrong": at.get("at"), "size": at.get("size"), "what": failed})
        print("FAILED", at, failed, flush=True)
        if at.get("at") not in left or not rest:
            break  # not one variant's fault: nothing is gained by another try
        left.remove(at["at"])
    if arguments.json:
        arguments.json.write_text(json.dumps(found) + "\n")


def size_line(row: Mapping[str, Any]) -> str:
    """The result of one size."""
    best = min(row["times"], key=row["times"].__getitem__)
    took = row["times"][best]
    return f"{row['size']:<20}{row['torch']:>9.1f} {took:>9.1f}  {row['torch'] / took:.3f}  {len(row['times'])} {best}"


def main() -> int:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE", help="what is found; sizes that it has are not measured")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--out-dtype", default="bfloat16")
    parser.add_argument("--layers", type=Path, default=LAYERS, metavar="FILE")
    parser.add_argument("--rows", type=int, nargs=2, default=(1, 1 << 30), metavar=("LEAST", "MOST"), help="m")
    parser.add_argument("--hopeless", type=float, default=HOPELESS, help="times the best estimate: what is left out")
    parser.add_argument("--beside", type=Path, metavar="FILE", help="of a run: without its variants")
    parser.add_argument("--only", default="", help="the variants whose names have this in them")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--sizes", default="[]", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=math.inf, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    config = {"dtype": arguments.dtype, "out_dtype": arguments.out_dtype}
    if arguments.child:
        asked = [Size(*given) for given in json.loads(arguments.sizes)]
        names = json.loads(arguments.child)
        measure(arguments.cache, names, config, asked, arguments.until, arguments.hopeless)
        return 0
    names = [name for name in variants(arguments.cache, config) if arguments.only in name]
    if arguments.beside:
        known = {name for row in json.loads(arguments.beside.read_text())["sizes"].values() for name in row["times"]}
        names = [name for name in names if name not in known]
    print(f"{len(names)} variants, {len(sizes(arguments.layers))} sizes: torch us, best us, torch / best", flush=True)
    found: dict[str, Any] = {"dtype": arguments.dtype, "sizes": {}, "wrong": []}
    if arguments.json and arguments.json.is_file():
        found = json.loads(arguments.json.read_text())
        if found["dtype"] != arguments.dtype:
            raise SystemExit(f"{arguments.json} is of {found['dtype']}, not {arguments.dtype}: name another file")
    run(arguments, names, found)
    wrong = {line["wrong"] for line in found["wrong"]}
    rows = [(row["torch"], min(row["times"].values())) for row in found["sizes"].values() if row["times"]]
    if rows:
        mean = math.exp(statistics.fmean(math.log(theirs / ours) for theirs, ours in rows))
        print(f"the best of all: {mean:.4f} of torch's speed at {len(rows)} sizes; {len(wrong)} wrong or hanging")
    return 1 if found["wrong"] or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
