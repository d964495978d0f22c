"""The page docs/performance.md, made of results: the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from html import escape
from typing import Any

from performance_tables import attention, figures, gemm, kernels, llama, loader, memory_bound

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]

HEAD = """# Performance

Each figure is compared with its peer of the same run, since clocks differ from day to day. A ratio is the peer's time
over ours: above 1, ours is faster. [benchmarking.md](benchmarking.md) explains how times are measured.
"""
FOOT = "\n`make bench` writes this page and its pictures from `benchmarks/results`, which has every measured size.\n"
NONE = """
No machine was measured yet. On a machine with a GPU:

```sh
precast build benchmarks/performance.yaml manifests/gemm.yaml -o cache     # anywhere
precast build manifests/llama.yaml -o llama
make bench CACHE=cache                                                     # there
make bench CACHE=llama ARGS='--parts llama llama-compile'
```
"""
PICTURES = (
    ("memory-bound", "memory-bound", "Memory-bound kernels", "A point is a size; the peer is the fastest of torch,"
     " `torch.compile`, quack and FlashInfer."),
    ("gemm-bfloat16", "gemm", "Matrix products", "`gemm` beside torch by its fastest library, at sizes of"
     " 25 layers that [no tuning file has](benchmarking.md#peers)."),
    ("llama", "llama", "Layers of a model", "Four layers of Llama 3 8B, each side in a CUDA graph."),
    ("figures", "serving-start", "Starts", "A [service](serving.md) of four layers, until its first answer."),
    ("figures", "calls", "Calls", "Host time of a call from Python, with small tensors."),
)  # fmt: skip
"""Plots: the part that has their figures, their file, a heading, and a line about them."""


def page(results: Results) -> str:
    """The page of some results, by machine and part.

    >>> "No machine was measured yet" in page({})
    True
    """
    parts = [HEAD, *_pictures({name for found in results.values() for name in found})]
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
    return "".join([*parts, FOOT] if len(parts) > 1 else [*parts, NONE])


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
    "gemm-bfloat16-written-back": "Matrix products in bfloat16, with a cache that was read",
    "gemm-float8": "Matrix products in float8",
    "gemm-float8-written-back": "Matrix products in float8, with a cache that was read",
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
