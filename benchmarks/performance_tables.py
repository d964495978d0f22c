"""The tables of docs/performance.md, each made of the results of one part."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

LARGE = 10.0  # microseconds: a launch that takes less is the launch itself
STREAMED = 64 << 20  # bytes: more than an L2 cache holds, and far longer than a launch
NEAR = 0.92  # of a copy
LEVEL = 0.03  # two times that differ by less count as one
LOSSES = 12  # that are named
PEERS = ("torch", "torch.compile", "quack", "FlashInfer")
INTRODUCTION = """\
Memory-bound kernels, at sizes from a step of decoding to long prompts, with the variants that `loader.get` chooses by
measurements. *of a copy* is our speed relative to a kernel that reads half as many bytes and writes the other half.
`torch.compile` compiles for each size. The L2 cache is cold and clean.
""".splitlines()


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


def counted(number: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "size"), counted(2, "size")
    ('1 size', '2 sizes')
    """
    return f"{number} {noun}" + ("" if number == 1 else "s")


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
        yield f"{len(shares)} sizes move {STREAMED >> 20} MB or more: {near} of them reach {NEAR} of a copy's speed or"
        yield f"more, the lowest {shares[0][0]:.2f}. Below {NEAR}: {'; '.join(below) or 'none'}."
        yield ""
    for kind in PEERS:
        ratios = [(found, _named(row)) for row in rows if (found := _beside(row, kind))]
        if ratios:
            lost = sorted((ratio, name) for ratio, name in ratios if ratio < 1 - LEVEL)
            worst = "; ".join(f"{name} {ratio:.2f}" for ratio, name in lost[:LOSSES])
            more = f" and {len(lost) - LOSSES} more" if len(lost) > LOSSES else ""
            mean = _mean([ratio for ratio, _ in ratios])
            sizes = counted(len(ratios), "size")
            yield f"- {kind}: ours runs at {mean:.2f} times its speed (geometric mean of {sizes})"
            yield f"  and is slower by more than {LEVEL:.0%} at {len(lost)}: {worst or 'none'}{more}."
    yield ""
    yield "*GB/s* and *of a copy* are those of the largest size; the ratios are geometric means of all sizes."
    yield ""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_kernel_of(row), []).append(row)
    yield from _table(
        ["kernel", "sizes", "GB/s", "of a copy", *PEERS], [_contest(name, sizes) for name, sizes in groups.items()]
    )


def _kernel_of(row: Mapping[str, Any]) -> str:
    config = [f"{name} {_value(value)}" for name, value in sorted(row["config"].items()) if name != "dtype"]
    return f"`{row['op']}`: {', '.join(config)}" if config else f"`{row['op']}`"


def _contest(name: str, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    largest = max(rows, key=lambda row: row["bytes"])
    ratios = [[ratio for row in rows if (ratio := _beside(row, kind))] for kind in PEERS]
    return [
        name,
        _sizes([row["problem"] for row in rows]),
        f"{largest['bytes'] / largest['us'] / 1e3:.0f}",
        f"{largest['copy'] / largest['us']:.2f}",
        *(f"{_mean(found):.2f}" if found else "" for found in ratios),
    ]


def _sizes(problems: Sequence[Mapping[str, Any]]) -> str:
    """The sizes that were measured, by name.

    >>> _sizes([{"rows": 16}, {"rows": 512}])
    'rows 16, 512'
    """
    names = dict.fromkeys(name for problem in problems for name in problem)
    values = {name: dict.fromkeys(str(problem[name]) for problem in problems if name in problem) for name in names}
    return "; ".join(f"{name} {', '.join(sizes)}" for name, sizes in values.items())


def _beside(row: Mapping[str, Any], kind: str) -> float | None:
    """The time of the fastest peer of a kind over ours."""
    times = [taken for name, taken in row["peers"].items() if library_of(name) == kind]
    return min(times) / row["us"] if times else None


def library_of(name: str) -> str:
    """Whose kernel a peer is.

    >>> library_of("torch add, rms_norm"), library_of("torch.compile"), library_of("quack.softmax")
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
    layers = len({(row["size"]["n"], row["size"]["k"]) for row in rows})
    yield f"`gemm` in {report['dtype']} at {len(rows)} sizes of {layers} layers that no tuning file contains, with the"
    yield "variants that `loader.get` chooses, compared with torch's own choice and with each of its libraries."
    if report.get("written_back"):
        yield "The L2 cache is cold and clean."
    else:
        yield "The L2 cache is cold and full of another kernel's dirty lines, which are written back during the launch."
    yield f"`gemm` runs at **{summary['geometric_mean']:.3f}** times the speed of the fastest of them (geometric mean;"
    yield f"{summary['least']:.3f} at the worst size), and is as fast or faster, within the spread, at"
    yield f"{summary['at_least_torch']:.0%} of the sizes."
    if "of_best" in summary:
        yield f"The choice reaches {summary['of_best']:.3f} of the speed of the best candidate, which would give"
        yield f"{summary['best_geometric_mean']:.3f}."
    yield ""
    yield from _by_rows(rows)


def _by_rows(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    groups = {"up to 64": (0, 64), "up to 1024": (64, 1024), "above": (1024, 1 << 60)}
    cells = []
    for name, (above, most) in groups.items():
        group = [row for row in rows if above < row["size"]["m"] <= most]
        if group:
            ratios, rates = [row["ratio"] for row in group], [_rate(row) for row in group]
            spread = f"{min(rates):.0f} to {max(rates):.0f}"
            cells.append([name, str(len(group)), spread, f"{_mean(ratios):.3f}", f"{min(ratios):.3f}"])
    yield from _table(["m", "sizes", "TFLOP/s", "torch / ours", "least"], cells)


def _rate(row: Mapping[str, Any]) -> float:
    size = row["size"]
    return float(2 * size["m"] * size["n"] * size["k"] / row["ours"] / 1e6)


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))


def llama(report: Mapping[str, Any]) -> Iterator[str]:
    """The time of a stack of layers by the number of tokens, ours by the faster way and the others'."""
    rows = report["rows"]
    ratios = [row["ratio"] for row in rows]
    peer = "the faster of torch and torch with cuDNN's attention"
    if not all("peer" in row for row in rows):
        peer = "torch with its FlashAttention backend, which torch would not choose here,"
    yield f"{report['layers']} layers of Llama 3 8B, each side in a CUDA graph, run at **{_mean(ratios):.3f}** times"
    yield f"the speed of {peer} (geometric mean; {min(ratios):.3f} at the worst number of tokens)."
    compiled = [row["ratio to torch.compile"] for row in rows if "ratio to torch.compile" in row]
    if compiled:
        yield f"They run at {_mean(compiled):.3f} times the speed of `torch.compile`, {min(compiled):.3f} at least."
    if "note" in report:
        yield report["note"]
    yield ""
    names = list(dict.fromkeys(name for row in rows for name in row["ms"]))
    head = ["tokens", *(f"{name}, ms" for name in names), "torch / ours", *(["compile / ours"] if compiled else [])]
    cells = []
    for row in rows:
        times = [f"{row['ms'][name]:.3f}" if name in row["ms"] else "" for name in names]
        others = [row["ratio"], *([row.get("ratio to torch.compile")] if compiled else [])]
        cells.append([str(row["tokens"]), *times, *(f"{ratio:.3f}" if ratio else "" for ratio in others)])
    yield from _table(head, cells)
    worst = {name: max(row["error"].get(name, 0.0) for row in rows) for name in names}
    yield ""
    errors = ", ".join(f"{name} {error:.1e}" for name, error in worst.items())
    yield f"Largest relative error, against float32: {errors}."


def attention(report: Mapping[str, Any]) -> Iterator[str]:
    """The figures over all shapes, then a row for each."""
    summary, rows = report["summary"], report["rows"]
    yield f"Attention in bfloat16, at {counted(len(rows), 'shape')} that no tuning file contains and with the variants"
    yield f"that `loader.get` chooses, runs at **{summary['geometric_mean']:.3f}** times the speed of the fastest of"
    yield f"torch's backends (geometric mean; {summary['least']:.3f} at the worst shape)."
    for layout in dict.fromkeys(row["shape"]["layout"] for row in rows):
        ratios = [row["ratio"] for row in rows if row["shape"]["layout"] == layout]
        mean = statistics.geometric_mean(ratios)
        yield f"{counted(len(ratios), f'{layout} shape')}: {mean:.3f}, {min(ratios):.3f} at least."
    if report.get("tuned"):
        yield "Tiles are chosen by times at other lengths and batches (`benchmarks/attention-candidates.yaml`)."
    else:
        yield "An earlier run at these shapes decided which tiles are listed, and in which order."
    missing = report.get("missing", "")
    if missing:
        yield missing
    yield ""
    cells = []
    for row in rows:
        shape = row["shape"]
        size = f"{shape['size']}/{shape['size_v']}" if shape["size_v"] else str(shape["size"])
        heads = f"{shape['heads']} over {shape['heads'] // shape['group']}"
        causal = "causal" if shape["causal"] else "full"
        cells.append(
            [
                shape["model"], f"{shape['batch']} x {shape['length']}", heads, size, f"{causal}, {shape['layout']}",
                f"{row['ours']:.1f}", f"{row['teraflops']:.0f}",
                row["peer"] + (", both without graphs" if row["peer"] in row.get("without_graphs", ()) else ""),
                f"{row['ratio']:.3f}",
            ]
        )  # fmt: skip
    yield from _table(
        [
            "model",
            "batch x length",
            "heads",
            "size",
            "mask, layout",
            "us",
            "TFLOP/s",
            "fastest peer",
            "its time / ours",
        ],
        cells,
    )


def figures(report: Mapping[str, Any]) -> Iterator[str]:
    """Single figures of the loader, of starts and of large problems."""
    yield "Each row is from one run of `benchmarks/loader.py`, `benchmarks/serving.py` or `benchmarks/kernels.py`."
    yield "Rows about cubins, FlashAttention's first result and large problems are of older runs. The smallest kernel,"
    yield "importing, `preload` and the first `get` were measured on a slower host, where a C++ launch takes 4.9 us."
    yield ""
    cells = [[row["what"], row["precast"], row["peers"]] for row in report["rows"]]
    yield from _table(["", "precast", "compared with"], cells)


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
