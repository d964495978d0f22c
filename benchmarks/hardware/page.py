"""The counts in docs/reference/emulation.md, of what `compare` wrote."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- begin kernels -->", "<!-- end kernels -->"
Row = Mapping[str, Any]


def summary(rows: Sequence[Row]) -> str:
    """How many variants are equal, and which ops have others.

    >>> print(summary([{"op": "add", "verdict": "equal"}, {"op": "sum", "verdict": "order"}]))
    1 of 2 variants of 2 ops are equal in every bit, 1 in some order of their atomic operations (`sum` 1);
    0 differ, 0 could not be compared.
    """
    ops: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        ops[row["op"]][row["verdict"]] += 1
    total: Counter[str] = sum(ops.values(), Counter())

    def counted(verdict: str) -> str:
        named = ", ".join(f"`{op}` {ops[op][verdict]}" for op in sorted(ops) if ops[op][verdict])
        return f" ({named})" if named else ""

    compared = total["equal"] + total["order"] + total["close"]
    return (
        f"{total['equal']} of {sum(total.values())} variants of {len(ops)} ops are equal in every bit, "
        f"{total['order']} in some order of their atomic operations{counted('order')};\n"
        f"{total['close']} differ{counted('close')}, {sum(total.values()) - compared} could not be compared."
    )


def write(page: Path, rows: Sequence[Row]) -> None:
    """Replace the counts on the page."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n{summary(rows)}\n{END}{after}")
