"""The table of docs/emulation-hardware.md, of what `compare` wrote."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- begin kernels -->", "<!-- end kernels -->"
Row = Mapping[str, Any]


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Lines of Markdown: for each op how many variants are equal, and how far the others are.

    >>> row = {"op": "add", "verdict": "equal", "share": 1.0, "steps": 0}
    >>> list(table([row]))[-3]
    '| `add` | 1 | 1 | | |'
    """
    ops: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        ops[row["op"]][row["verdict"]] += 1
    yield "| op | variants | equal in every bit | equal in some order | different |"
    yield "| --- | --- | --- | --- | --- |"
    for op in sorted(ops):
        counts = ops[op]
        if compared := counts["equal"] + counts["order"] + counts["close"]:
            cells = [f"`{op}`", str(compared), *(str(counts[v] or "") for v in ("equal", "order", "close"))]
            yield "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"
    total: Counter[str] = sum(ops.values(), Counter())
    missing = sum(total.values()) - total["equal"] - total["order"] - total["close"]
    yield ""
    yield (
        f"{total['equal']} of {sum(total.values())} variants are equal in every bit, {total['order']} in some order of "
        f"their atomic operations;\n{total['close']} differ, {missing} could not be compared."
    )


def write(page: Path, rows: Sequence[Row]) -> None:
    """Replace the table of the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(before + BEGIN + "\n" + "\n".join(table(rows)) + "\n" + END + after)
