"""The page docs/performance.md, made of results: the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from html import escape
from statistics import geometric_mean
from typing import Any

from performance_tables import STREAMED, attention, figures, gemm, kernels, llama, loader, memory_bound
from pictures.svg import TIMES

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]

HEAD = """# Performance
"""
ABOUT = """
Each figure is compared with its peer of the same run, since clocks differ from day to day. A ratio is the peer's time
over ours: above 1, ours is faster. [How times are measured](#how-times-are-measured) explains the rules.
"""
METHOD = """
## How times are measured

`precast bench CACHE` times every variant on the problems that its kernel declares. It needs a GPU and torch, and no
compiler. A `--problem` may omit `padding`, `offset` and sizes that are equal in all problems. Its columns:

- `cold us`, `+-`: a launch with a cold cache: a CUDA graph of it alone, between two events, after 256 MB were written.
  The cache is then full of dirty lines, which favours kernels that bring few lines or let them go first. Products are
  therefore also measured with a clean cache, one that was last read (`benchmarks/gemm.py --written-back`), and times
  that choose among their variants are the mean of both.
- `warm us`: a launch among others like it, back to back in one graph.
- `host us`: host time of a call from Python, the least of seven batches that do not fill the queue.
- `GB/s`, `TFLOP/s`: the declared work of a launch (`cost`) over the cold time. `share`: the least possible time over
  the cold time.
- `peer`, `ratio`: the fastest alternative, such as `torch.mm`, on the same inputs in turns, and its time over ours.

**Spread.** Each variant is timed in three rounds (`--rounds`) of forty launches, every second round in reverse order.
The spread is half the range of the rounds or half the interquartile range of a round, whichever is larger, and at least
half the resolution of CUDA events (0.5 us). Two times that differ by less than the sum of their spreads count as equal.

**Roofline.** The least possible time is that of the declared bytes at the GPU's bandwidth, or of the operations at its
rate, whichever is longer. Both are measured before and after the rounds: the highest bandwidth of a copy, a sum and a
fill of up to 2 GB, and the rate of each dtype by torch's product of square matrices of random numbers and of zeros,
which keep the clock high. No product of real data reaches that rate; use `ratio` to judge a product. Outputs that fit
in the L2 cache are not counted, since they may still be there when a launch ends. A share above 1 by more than the
spread is marked `!`: the declared `cost` is too high, or the measurement of the GPU was disturbed. On an H200, writing
back what the previous kernel left in the L2 cache takes up to 10 us of a launch.

### Peers

A figure is compared with what a user has without precast, at its best:

- **Torch by its own choice, and by each backend that can be requested**: products by cuBLAS and cuBLASLt, attention by
  cuDNN. The peer is the fastest of them at each size.
- **Each library that has the kernel**: quack, FlashInfer; and `torch.compile` of the same code for exactly these sizes,
  in a graph as ours is.
- **The sizes are not those that were tuned.** Products are measured at the layers of `benchmarks/gemm-unseen.yaml` and
  attention at `benchmarks/attention-unseen.yaml`; a test checks that no tuning file contains such a layer. Attention's
  tiles are chosen at the problems of `benchmarks/attention-candidates.yaml`, half of which do not fill their last tile.
- **Packed sequences** are compared with the fastest of torch's functions for them, by FlashAttention and by cuDNN, its
  nested tensors, and cuDNN on a padded batch (`benchmarks/attention_peers.py`). Each is timed in a process of its own,
  in turns with ours; one that hangs or faults is listed as not measured. If one cannot be captured in a graph, both are
  timed without.
- **A figure that gets worse is published as it is.**
"""
FOOT = """
## Measure again

`make bench` writes this page and its pictures from `benchmarks/results`, which has every measured size:

```sh
precast build benchmarks/performance.yaml manifests/gemm.yaml -o cache    # anywhere
precast build manifests/llama.yaml -o llama                               # a cache of its own, since gemm is in both
make bench CACHE=cache                                                    # on the GPU
make bench CACHE=llama ARGS='--parts llama llama-compile'                 # some parts alone
```

A part whose op the cache lacks is skipped. Without `CACHE` only the page is written.
"""
NONE = """
No machine was measured yet.
"""
PICTURES = (
    ("memory-bound", "memory-bound", "Memory-bound kernels", "A point is a size; the peer is the fastest of torch,"
     " `torch.compile`, quack and FlashInfer."),
    ("gemm-bfloat16", "gemm", "Matrix products", "`gemm` compared with torch's fastest library, at sizes of"
     " 25 layers that [no tuning file contains](#peers)."),
    ("llama", "llama", "Layers of a model", "Four layers of Llama 3 8B, each side in a CUDA graph."),
    ("figures", "serving-start", "Starts",
     "A [service](deployment.md#a-whole-service) of four layers, until its first answer."),
    ("figures", "calls", "Calls", "Host time of a call from Python, with small tensors."),
)  # fmt: skip
"""Plots: the part that has their figures, their file, a heading, and a line about them."""


def page(results: Results) -> str:
    """The page of some results, by machine and part.

    >>> "No machine was measured yet" in page({})
    True
    """
    measured = {name for found in results.values() for name in found}
    parts = [HEAD, *_opening(found for _, found in sorted(results.items())), ABOUT, *_pictures(measured)]
    for _, found in sorted(results.items()):
        machines = [found[name]["machine"] for name in RENDERED if name in found]
        if machines:
            whole = {_facts(machine) for machine in machines if "cuda" in machine}
            shared = whole.pop() if len(whole) == 1 else ""
            parts.append(f"\n## {machines[0]['name']}\n" + (f"\n{shared}.\n" if shared else ""))
            for name, render in RENDERED.items():
                if name in found:
                    text = "\n".join(render(found[name]["data"]))
                    parts.append(f"\n### {TITLES[name]}\n\n{section(found[name], shared)}\n\n{text}\n")
    return "".join([*parts, *([] if measured else [NONE]), METHOD, FOOT])


def _opening(machines: Iterable[Mapping[str, Mapping[str, Any]]]) -> Iterator[str]:
    """A row of numbers, each with its unit, of the first machine that has any; below each, what it is of."""
    for found in machines:
        if numbers := list(_numbers({name: part["data"] for name, part in found.items()})):
            head, below = (" | ".join(cells) for cells in zip(*numbers, strict=True))
            yield f"\n| {head} |\n|{' --- |' * len(numbers)}\n| {below} |\n"
            return


def _numbers(data: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The number of each part that was measured, and what it is.

    >>> list(_numbers({"figures": {"call": [{"what": "precast", "us": 3.5}, {"what": "torch.mul(out=)", "us": 7.6}]}}))
    [('3.5 us', 'host time of a call; `torch.mul`: 7.6 us')]
    """
    if "gemm-bfloat16" in data:
        mean = data["gemm-bfloat16"]["summary"]["geometric_mean"]
        yield f"{mean:.2f}{TIMES} torch", "`gemm` in bfloat16, beside the fastest library of torch"
    if dense := [r["ratio"] for r in data.get("attention", {}).get("rows", ()) if r["shape"]["layout"] == "dense"]:
        yield f"{geometric_mean(dense):.2f}{TIMES} torch", "dense attention, beside the fastest backend of torch"
    if ratios := [row["ratio"] for row in data.get("llama", {}).get("rows", ())]:
        yield f"{geometric_mean(ratios):.2f}{TIMES} torch", "four layers of Llama 3 8B, in a CUDA graph"
    if large := [r for r in data.get("memory-bound", {}).get("rows", ()) if r["bytes"] >= STREAMED]:
        share = geometric_mean([row["copy"] / row["us"] for row in large])
        yield (
            f"{share:.2f}{TIMES} a copy",
            f"speed of kernels bound by memory, from {STREAMED >> 20} MB on",
        )
    if call := {row["what"]: row["us"] for row in data.get("figures", {}).get("call", ())}:
        yield f"{call['precast']} us", f"host time of a call; `torch.mul`: {call['torch.mul(out=)']} us"


def _pictures(measured: Collection[str]) -> Iterator[str]:
    """The plots whose figures were measured."""
    for part, file, title, about in PICTURES:
        if part in measured:
            yield f"\n## {title}\n\n{about}\n\n{picture(title, f'images/{file}')}\n"


def picture(text: str, path: str) -> str:
    """The markup of a picture with two forms.

    >>> picture("Calls", "images/calls").endswith('<img alt="Calls" src="images/calls.svg"></picture>')
    True
    """
    narrow = f'<source media="(max-width: 640px)" srcset="{path}-narrow.svg">'
    return f'<picture>{narrow}<img alt="{escape(text)}" src="{path}.svg"></picture>'


def section(part: Mapping[str, Any], shared: str) -> str:
    """What was run and when, and on what, unless that is what all parts share."""
    facts = _facts(part["machine"])
    return f"`{part['command']}`, {part['date']}" + ("." if facts == shared else f": {facts}.")


def _facts(machine: Mapping[str, Any]) -> str:
    facts = [f"driver {machine['driver_version']}", f"torch {machine['torch']}"]
    facts += [f"CUDA {machine['cuda']}"] if machine.get("cuda") else []
    clocks = [machine.get(name) for name in ("clocks.max.sm", "clocks.max.mem")]
    facts += [f"clocks up to {clocks[0]} and {clocks[1]} (memory)"] if all(clocks) else []
    facts += [f"limited to {machine['power.limit']}"] if machine.get("power.limit") else []
    return ", ".join(facts)


TITLES = {
    "memory-bound": "Memory-bound kernels by size",
    "kernels": "Kernels",
    "gemm-bfloat16": "Matrix products in bfloat16",
    "gemm-bfloat16-written-back": "Matrix products in bfloat16, with a clean cache",
    "gemm-float8": "Matrix products in float8",
    "gemm-float8-written-back": "Matrix products in float8, with a clean cache",
    "attention": "Attention",
    "llama": "Layers, fused and separate",
    "llama-compile": "Layers and `torch.compile`",
    "loader": "The loader",
    "figures": "Single figures",
}
RENDERED = {
    "memory-bound": memory_bound,
    "kernels": kernels,
    "gemm-bfloat16": gemm,
    "gemm-bfloat16-written-back": gemm,
    "gemm-float8": gemm,
    "gemm-float8-written-back": gemm,
    "attention": attention,
    "llama": llama,
    "llama-compile": llama,
    "loader": loader,
    "figures": figures,
}
