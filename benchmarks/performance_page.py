"""The page docs/performance.md, made of results: the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]

HEAD = """# Performance

This page is written by `make bench` from the files in `benchmarks/results`: do not edit it.
[benchmarking.md](benchmarking.md) says how times are taken. Every figure stands beside its peer of the same run: one of
another day is of another clock.
"""
NONE = """
No machine was measured yet. On one with a GPU:

```sh
precast build benchmarks/performance.yaml manifests/gemm.yaml -o cache     # anywhere
precast build manifests/llama.yaml -o llama
make bench CACHE=cache                                                     # there
make bench CACHE=llama ARGS='--parts llama llama-compile'
```
"""
LARGE = 10.0  # microseconds: a launch that takes less is the launch itself
STREAMED = 64 << 20  # bytes: more than an L2 cache holds, and far longer than a launch
NEAR = 0.92  # of a copy
LEVEL = 0.03  # two times that differ by less count as one
LOSSES = 12  # that are named
PEERS = ("torch", "torch.compile", "quack", "FlashInfer")
INTRODUCTION = """\
Kernels that do little with each byte, at sizes from a step of decoding to long prompts, as `loader.get` chooses for the
size by measurements. *Of a copy* is the time of a kernel that reads half as many bytes and writes the other half, in
turns with ours on the same GPU. The columns of others are their time over ours: above 1, ours is faster.
`torch.compile` is compiled for the very size. Before each launch the L2 cache has nothing of it, and nothing that has
yet to be written to memory. *Behind writes* is our time where it has, as it is in `precast bench`: what mostly reads
then pays for the writes of others.
""".splitlines()


def page(results: Results) -> str:
    """The page of some results, by machine and part.

    >>> "No machine was measured yet" in page({})
    True
    """
    parts = [HEAD]
    for _, found in sorted(results.items()):
        machine = next((part["machine"] for part in found.values()), None)
        if machine is not None:
            parts.append(f"\n## {machine['name']}\n")
            for name, render in RENDERED.items():
                if name in found:
                    parts.append(f"\n{section(found[name])}\n\n" + "\n".join(render(found[name]["data"])) + "\n")
    return "".join(parts if len(parts) > 1 else [*parts, NONE])


def section(part: Mapping[str, Any]) -> str:
    """What was run, where and when."""
    machine = part["machine"]
    facts = [f"driver {machine['driver_version']}", f"torch {machine['torch']}", f"CUDA {machine['cuda']}"]
    clocks = [machine.get(name) for name in ("clocks.max.sm", "clocks.max.mem")]
    facts += [f"clocks up to {clocks[0]} and {clocks[1]} (memory)"] if all(clocks) else []
    facts += [f"limited to {machine['power.limit']}"] if machine.get("power.limit") else []
    return f"`{part['command']}`, {part['date']}: {', '.join(facts)}."


def kernels(report: Mapping[str, Any]) -> Iterator[str]:
    """A table of the fastest variant of each kernel and problem that takes more than a launch."""
    ceilings = report.get("ceilings") or {}
    if ceilings:
        rates = [f"{name} {rate:.0f} TFLOP/s" for name, rate in sorted(ceilings["rates"].items())]
        figures = ", ".join([f"{ceilings['bandwidth']:.0f} GB/s", *rates])
        yield f"The GPU, in the same run: {figures}."
        yield "`share` is the least possible time, by these and the kernel's declared cost, over the measured one."
        yield ""
    yield from _table(
        ["kernel", "problem", "us", "+-", "warm us", "host us", "GB/s", "TFLOP/s", "share", "peer", "its time / ours"],
        [_kernel(row) for row in fastest(report["rows"])],
    )


def fastest(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The fastest of those rows that do the same work, where that takes more than a launch itself."""
    best: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in rows:
        timing = row["timing"]
        work = (row["op"], timing["bytes"], timing["flops"], str(sorted(timing["problem"].items())))
        if timing["microseconds"] >= LARGE:
            best[work] = min(best.get(work, row), row, key=lambda one: (one["timing"]["microseconds"], one["key"]))
    return [best[work] for work in sorted(best)]


def _kernel(row: Mapping[str, Any]) -> list[str]:
    timing, us = row["timing"], row["timing"]["microseconds"]
    peer, taken = min(timing["peers"].items(), key=lambda item: (item[1], item[0]), default=("", 0.0))
    config = [f"{name} {_value(value)}" for name, value in sorted(row["config"].items()) if value not in _PLAIN]
    problem = ", ".join(f"{name} {size}" for name, size in sorted(timing["problem"].items()) if size)
    return [
        f"`{row['op']}`: {', '.join(config)}",
        problem,
        f"{us:.1f}",
        f"{timing['spread']:.1f}",
        f"{timing['warm']:.1f}" if timing["warm"] else "",
        f"{timing['host']:.1f}" if timing["host"] else "",
        f"{timing['bytes'] / us / 1e3:.0f}" if timing["bytes"] else "",
        f"{timing['flops'] / us / 1e6:.1f}" if timing["flops"] else "",
        f"{row['roofline']['share']:.3f}" if row["roofline"] else "",
        peer,
        f"{taken / us:.2f}" if taken else "",
    ]


_PLAIN = (None, False, "", 0.0)


def _value(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


def memory_bound(report: Mapping[str, Any]) -> Iterator[str]:
    """How near to a copy the large ones are, where a peer is faster, and a table of all."""
    rows = report["rows"]
    large = [row for row in rows if row["bytes"] >= STREAMED]
    shares = sorted((row["copy"] / row["us"], _named(row)) for row in large)
    yield from INTRODUCTION
    yield ""
    if shares:
        below = [f"{name} {share:.2f}" for share, name in shares if share < NEAR]
        near = len(shares) - len(below)
        yield f"Of the {len(shares)} that move {STREAMED >> 20} MB or more, {near} reach {NEAR} of a copy or more,"
        yield f"{shares[0][0]:.2f} at least. Below: {'; '.join(below) or 'none'}."
        yield ""
    for kind in PEERS:
        ratios = [(found, _named(row)) for row in rows if (found := _beside(row, kind))]
        if ratios:
            lost = sorted((ratio, name) for ratio, name in ratios if ratio < 1 - LEVEL)
            worst = "; ".join(f"{name} {ratio:.2f}" for ratio, name in lost[:LOSSES])
            more = f" and {len(lost) - LOSSES} more" if len(lost) > LOSSES else ""
            mean = _mean([ratio for ratio, _ in ratios])
            yield f"- {kind} takes {mean:.2f} times as long in the geometric mean of {len(ratios)} contests. Ours is"
            yield f"  slower by more than {LEVEL:.0%} in {len(lost)}: {worst or 'none'}{more}."
    yield ""
    yield from _table(
        ["kernel", "size", "us", "+-", "GB/s", "of a copy", *PEERS, "behind writes, us", "chosen"],
        [_contest(row) for row in rows],
    )


def _contest(row: Mapping[str, Any]) -> list[str]:
    config = [f"{name} {_value(value)}" for name, value in sorted(row["config"].items()) if name != "dtype"]
    peers = [_beside(row, kind) for kind in PEERS]
    us = row["us"]
    return [
        f"`{row['op']}`: {', '.join(config)}" if config else f"`{row['op']}`",
        ", ".join(f"{name} {size}" for name, size in row["problem"].items()),
        f"{us:.1f}",
        f"{row['spread']:.1f}",
        f"{row['bytes'] / us / 1e3:.0f}",
        f"{row['copy'] / us:.2f}",
        *(f"{ratio:.2f}" if ratio else "" for ratio in peers),
        f"{row['behind_writes']['us']:.1f}",
        ", ".join(f"{name} {_value(value)}" for name, value in sorted(row["chosen"].items()) if value not in _PLAIN),
    ]


def _beside(row: Mapping[str, Any], kind: str) -> float | None:
    """The time of the fastest peer of a kind over ours."""
    times = [taken for name, taken in row["peers"].items() if _kind(name) == kind]
    return min(times) / row["us"] if times else None


def _kind(name: str) -> str:
    """Whose kernel a peer is.

    >>> _kind("torch add, rms_norm"), _kind("torch.compile"), _kind("quack.softmax")
    ('torch', 'torch.compile', 'quack')
    """
    library = name.partition(".")[0].partition(" ")[0]
    return "torch.compile" if name.startswith("torch.compile") else {"flashinfer": "FlashInfer"}.get(library, library)


def _named(row: Mapping[str, Any]) -> str:
    parts = [_value(value) for name, value in sorted(row["config"].items()) if name != "dtype"]
    return " ".join([f"`{row['op']}`", *parts, *(f"{name} {size}" for name, size in row["problem"].items())])


def gemm(report: Mapping[str, Any]) -> Iterator[str]:
    """The figures over all sizes, then a table."""
    summary, rows = report["summary"], report["rows"]
    yield f"`gemm` in {report['dtype']} at {len(rows)} sizes that the tuning did not see, as `loader.get` chooses for"
    yield f"each: torch's time over ours is **{summary['geometric_mean']:.3f}** in the geometric mean,"
    yield f"{summary['least']:.3f} at least. At {summary['at_least_torch']:.0%} of the sizes ours is as fast or faster,"
    yield "within the spread."
    if "of_best" in summary:
        yield f"The choice reaches {summary['of_best']:.3f} of the best candidate, with which it would be"
        yield f"{summary['best_geometric_mean']:.3f}."
    yield ""
    yield from _by_rows(rows)
    yield ""
    yield from _table(
        ["layer", "m", "n", "k", "ours us", "TFLOP/s", "torch us", "torch / ours", "+-", "of the best"],
        [_product(row) for row in sorted(rows, key=lambda row: (row["size"]["m"], row["size"]["n"], row["size"]["k"]))],
    )


def _by_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    groups = {"m up to 64": (0, 64), "m up to 1024": (64, 1024), "m above": (1024, 1 << 60)}
    cells = []
    for name, (above, most) in groups.items():
        ratios = [row["ratio"] for row in rows if above < row["size"]["m"] <= most]
        if ratios:
            cells.append([name, str(len(ratios)), f"{_mean(ratios):.3f}", f"{min(ratios):.3f}"])
    yield from _table(["", "sizes", "torch / ours", "least"], cells)


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))


def _product(row: Mapping[str, Any]) -> list[str]:
    size = row["size"]
    rate = 2 * size["m"] * size["n"] * size["k"] / row["ours"] / 1e6
    best = f"{min(1.0, row['best'] / row['ours']):.3f}" if row["best"] else ""
    times = [f"{row['ours']:.1f}", f"{rate:.0f}", f"{row['torch']:.1f}", f"{row['ratio']:.3f}", f"{row['spread']:.3f}"]
    return [f"{size['model']} {size['layer']}", *(str(size[name]) for name in "mnk"), *times, best]


def llama(report: Mapping[str, Any]) -> Iterator[str]:
    """The time of a stack of layers by the number of tokens, ours by the faster way and the others'."""
    rows = report["rows"]
    ratios = [row["ratio"] for row in rows]
    yield f"{report['layers']} layers of Llama 3 8B, each side in a CUDA graph, the two in turn: torch's time over ours"
    yield f"is **{_mean(ratios):.3f}** in the geometric mean, {min(ratios):.3f} at least. Errors are against float32."
    yield "torch attends by its FlashAttention backend. Of ours, the faster of the ways that were timed counts."
    compiled = [row["ratio to torch.compile"] for row in rows if "ratio to torch.compile" in row]
    if compiled:
        yield f"`torch.compile` takes {_mean(compiled):.3f} times as long as ours, {min(compiled):.3f} at least."
    yield ""
    names = list(dict.fromkeys(name for row in rows for name in row["ms"]))
    head = ["tokens", *(f"{name}, ms" for name in names), "torch / ours", *(["compile / ours"] if compiled else [])]
    cells = []
    for row in rows:
        times = [f"{row['ms'][name]:.3f}" if name in row["ms"] else "" for name in names]
        others = [row["ratio"], *([row["ratio to torch.compile"]] if compiled else [])]
        cells.append([str(row["tokens"]), *times, *(f"{ratio:.3f}" for ratio in others)])
    yield from _table(head, cells)
    worst = {name: max(row["error"].get(name, 0.0) for row in rows) for name in names}
    yield ""
    yield f"Largest relative error: {', '.join(f'{name} {error:.1e}' for name, error in worst.items())}."


def loader(report: Mapping[str, Any]) -> Iterator[str]:
    """A table for each section."""
    for name, rows in sorted(report.items()):
        if rows:
            yield f"**{name}**"
            yield ""
            bounds = [("at_most", "at most"), ("at_least", "at least")]
            cells = []
            for row in rows:
                bound = next((f"{text} {row[key]:g}" for key, text in bounds if row.get(key) is not None), "")
                cells.append([row["what"], f"{row['value']:.3f} {row['unit']}".strip(), bound])
            yield from _table(["", "measured", "promised"], cells)
            yield ""


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


RENDERED = {
    "memory-bound": memory_bound,
    "kernels": kernels,
    "gemm-bfloat16": gemm,
    "gemm-float8": gemm,
    "llama": llama,
    "llama-compile": llama,
    "loader": loader,
}
