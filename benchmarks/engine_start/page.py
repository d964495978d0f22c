"""What the starts gave, and the table of docs/engines.md: ``python benchmarks/engine_start/page.py [results.tgz ...]``.

With archives that ``run.py`` left, their starts replace those of the same name in benchmarks/results/engine-start.json
first: seconds, counts and comparisons, without the tokens themselves. The same results give the same lines between the
marks of the page. ``benchmarks/draw.py`` draws the picture from them.
"""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from cells import CELLS, Cell  # noqa: E402
from serving_page import written  # noqa: E402

RESULTS = HERE.parent / "results" / "engine-start.json"
PAGE = HERE.parents[1] / "docs" / "engines.md"
MARKS = ("ready", "first token", "all prompts")
SERVED = "warm, served, no compiler"
COLUMNS = {"cold": "cold", "warm": "warm", SERVED: "**served**", "one wheel, served, no compilers": "**one wheel**"}
"""The starts that the page shows of each model, by their columns; RESULTS has them all."""
TITLES = {
    "eager": "vLLM, Gemma 4 with experts, eager",
    "graph": "vLLM, Gemma 4 with experts, graph",
    "server": "the same, `vllm serve`",
    "spawned": "vLLM, Gemma 4 with experts, eager, spawned",
}
"""Names of starts that name no model."""


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """How many tokens of two starts are equal, and how far log-probabilities are apart.

    >>> difference({"tokens": [[1, 2], [3]], "logprobs": [[-1.0, -2.0], [-3.0]]},
    ...            {"tokens": [[1, 9], [3]], "logprobs": [[-1.0, -2.5], [-3.0]]})
    {'equal': 2, 'of': 3, 'largest': 0.5}
    """
    rows = zip(one["tokens"], other["tokens"], strict=True)
    tokens = [pair for row in rows for pair in zip(*row, strict=True)]
    rows = zip(one["logprobs"], other["logprobs"], strict=True)
    logs = [abs(mine - theirs) for row in rows for mine, theirs in zip(*row, strict=True)]
    return {"equal": sum(mine == theirs for mine, theirs in tokens), "of": len(tokens), "largest": max(logs)}


def compared_with(cell: Cell) -> Cell:
    """The start whose answers those of a cell must equal: the engine alone, with the same model and the same graphs.

    Graphs from a wheel are those of the start that made the wheel: one with empty caches may choose other kernels.

    >>> compared_with(next(cell for cell in CELLS if cell.name == "spawned, warm, served, no compiler")).name
    'eager, cold'
    """
    if cell.graph and cell.wheel != "kernels":
        return next(c for c in CELLS if c.makes == cell.wheel)
    same = (
        c for c in CELLS if (c.engine, c.model, c.option, c.graph) == (cell.engine, cell.model, cell.option, cell.graph)
    )
    return next(c for c in same if not c.attached)


Totals = dict[str, list[float]]


def totals(events: Iterable[Mapping[str, Any]], since: float = 0, until: float = float("inf")) -> Totals:
    """How often each kind of event ended between two moments, and its seconds.

    >>> events = [{"kind": "DSL", "seconds": 2.0, "at": 5}, {"kind": "DSL", "seconds": 1.5, "at": 9}]
    >>> totals(events), totals(events, since=6)
    ({'DSL': [2, 3.5]}, {'DSL': [1, 1.5]})
    """
    kinds: Totals = {}
    for event in events:
        if since <= event["at"] <= until:
            total = kinds.setdefault(event["kind"], [0, 0.0])
            total[0], total[1] = total[0] + 1, round(total[1] + event["seconds"], 2)
    return kinds


def row_of(cell: Cell, result: Mapping[str, Any], results: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """What is kept of a start."""
    row: dict[str, Any] = {"cell": cell.name, "marks": result.get("marks", {})}
    if "failed" in result:
        return row | {"failed": result["failed"]}
    if cell.process == "server":
        return row
    ready, first = (result["marks"][mark] for mark in MARKS[:2])
    row["kinds"] = totals(result["events"])
    row["until first token"] = totals(result["events"], until=first)
    row["after ready"] = totals(result["events"], since=ready)
    row["memory"] = result["memory"]
    base = results.get(compared_with(cell).name)
    if base and base is not result and "tokens" in base:
        row["compared"] = difference(base, result)
    counted = [event["name"] for event in result["events"] if event["kind"] == "served"]
    if counted:  # in a process that the engine spawned
        row["served"] = json.loads(counted[-1])
    elif cell.attached and cell.process == "one":
        row["served"] = [sum(count[place] for count in result["served"]) for place in (1, 2)]
    logs = [log for answer in result["logprobs"] for log in answer]
    row["logprobs"], row["distinct"] = [min(logs), max(logs)], len({t for answer in result["tokens"] for t in answer})
    return row


def collected(archive: Path) -> dict[str, Any]:
    """What is stored of an archive of results."""
    with tarfile.open(archive) as tar:
        texts = {member.name: tar.extractfile(member) for member in tar if member.name.endswith(".json")}
        loaded = {name: json.load(file) for name, file in texts.items() if file}
    results = {result["cell"]: result for name, result in loaded.items() if name.startswith("results/")}
    cells = [cell for cell in CELLS if cell.name in results and not cell.makes]
    rows = {cell.name: row_of(cell, results[cell.name], results) for cell in cells}
    return {"machines": {cells[0].engine: loaded["machine.json"]}, "cells": rows}


def merged(stored: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Stored results with new ones in place of those of the same start, in the order of the starts."""
    rows = {row["cell"]: row for row in stored["cells"]} | new["cells"]
    ordered = [rows[cell.name] for cell in CELLS if cell.name in rows]
    return {"machines": {**stored["machines"], **new["machines"]}, "cells": ordered}


def groups(rows: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The starts that a line of the table shows, by their column, for each engine, model and mode.

    >>> rows = [{"cell": f"{name}"} for name in ("graph, cold", "graph, warm", "graph, cold again", "gpt-oss, cold")]
    >>> {title: list(starts) for title, starts in groups(rows).items()}
    {'vLLM, Gemma 4 with experts, graph': ['cold', 'warm'], 'vLLM, gpt-oss': ['cold']}
    """
    made: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        name = row["cell"]
        start = next((one for one in COLUMNS if name.endswith(f", {one}")), None)
        if start and "failed" not in row:
            title = name.removesuffix(f", {start}")
            title = TITLES.get(title, title if title.startswith("SGLang") else f"vLLM, {title}")
            made.setdefault(title, {})[start] = row
    return made


def table(rows: Iterable[Mapping[str, Any]]) -> str:
    """Seconds to the first token, what the DSL compiles in a cold and in a warm start, and memory, warm and served."""
    lines = [
        f"| seconds to the first token | {' | '.join(COLUMNS.values())} | the DSL, cold | the DSL, warm | MB |",
        f"| --- |{' --- |' * (len(COLUMNS) + 3)}",
    ]
    for title, starts in groups(rows).items():
        seconds = [f"{starts[one]['marks'][MARKS[1]]:.1f}" if one in starts else "" for one in COLUMNS]
        counted = {one: row for one, row in starts.items() if "kinds" in row}
        dsl = [_number(counted[one]["kinds"].get("DSL")) if one in counted else "" for one in ("cold", "warm")]
        memory = [str(counted[one]["memory"]) for one in ("warm", SERVED) if one in counted]
        lines.append(f"| {title} | {' | '.join([*seconds, *dsl, ', '.join(memory)])} |")
    return "\n".join(lines) + "\n"


def answers(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many starts answer as those that they are compared with; each that does not, or that fails."""
    compared = {row["cell"]: row["compared"] for row in rows if "compared" in row}
    unlike = {name: one for name, one in compared.items() if one["equal"] < one["of"] or one["largest"]}
    lines = [
        f"{len(compared) - len(unlike)} of {len(compared)} starts that were compared gave equal tokens and equal "
        "log-probabilities. The others, and what failed:\n"
    ]
    for name, one in unlike.items():
        lines.append(f"- *{name}*: {one['equal']} of {one['of']} tokens, largest difference {one['largest']:g}")
    lines += [f"- *{row['cell']}*: `{row['failed'].splitlines()[0]}`" for row in rows if "failed" in row]
    return "\n".join(lines) + "\n"


def _number(total: Sequence[float] | None) -> str:
    return f"{total[0]:.0f}, {total[1]:.1f} s" if total else "0"


def machine(engine: str, facts: Mapping[str, Any]) -> str:
    """What an engine was measured with."""
    names = (engine, "torch", "triton", "nvidia-cutlass-dsl", "apache-tvm-ffi")
    return f"{facts['gpu']}, Python {facts['python']}, {', '.join(f'{name} {facts[name]}' for name in names)}.\n"


def pages(results: Mapping[str, Any]) -> dict[Path, str]:
    """The files as they should be."""
    rows = results["cells"]
    machines = "\n".join(machine(engine, facts) for engine, facts in results["machines"].items())
    lines = "\n".join([table(rows), answers(rows), machines])
    return {PAGE: written(PAGE.read_text(), "starts", lines)}


def main(archives: list[str]) -> int:
    """Store the results of archives, if some are given, and write the page."""
    results = json.loads(RESULTS.read_text())
    for archive in archives:
        results = merged(results, collected(Path(archive)))
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    for path, text in pages(results).items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
