"""The table of docs/emulation-hardware.md, of what `compare` wrote."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- begin kernels -->", "<!-- end kernels -->"
Row = Mapping[str, Any]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Lines of Markdown: for each op how many variants are equal, and how far the others are.

    >>> row = {"op": "add", "verdict": "equal", "share": 1.0, "steps": 0}
    >>> list(table([row]))[-2]
    '| `add` | 1 | 1 | | | |'
    """
    ops: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        ops[row["op"]].append(row)
    yield "| op | variants | equal in every bit | in some bits | equal elements, at least | steps, at most |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for op in sorted(ops):
        close = [row for row in ops[op] if row["verdict"] == "close"]
        equal = sum(row["verdict"] == "equal" for row in ops[op])
        compared = equal + len(close)
        cells = [f"`{op}`", str(compared), str(equal) if equal else ""]
        if close:
            cells += [str(len(close)), f"{min(r['share'] for r in close):.2%}", str(max(r["steps"] for r in close))]
        else:
            cells += ["", "", ""]
        if compared:
            yield "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
    missing = [row for row in rows if row["verdict"] not in ("equal", "close")]
    counts = f"{sum(r['verdict'] == 'equal' for r in rows)} of {len(rows)} variants are equal in every bit"
    yield f"\n{counts}; {len(missing)} could not be compared."


def write(page: Path, rows: Sequence[Row]) -> None:
    """Replace the table of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(before + BEGIN + "\n" + "\n".join(table(rows)) + "\n" + END + after)
