"""The figures of docs/deployment.md, out of what was measured: ``python benchmarks/serving_page.py``.

``serving.py`` measures the starts, and the load test of examples/serving the deployment; both are kept in
benchmarks/results. The same results give the same lines between the marks of the page. ``draw.py`` draws the picture.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pictures.starts import by_case

ROOT = Path(__file__).parents[1]
STARTS, LOAD = (ROOT / "benchmarks" / "results" / f"serving-{name}.json" for name in ("start", "load"))
PAGE = ROOT / "docs" / "deployment.md"


def table(results: Mapping[str, Any]) -> str:
    """Medians, with the least and the most."""
    lines = ["| | runs | seconds to the first answer | resident memory, MB |", "| --- | --- | --- | --- |"]
    for case, runs in by_case(results["runs"]).items():
        memory = median(run["memory"]["resident"] for run in runs)
        lines.append(f"| {case} | {len(runs)} | {_range([run['answered'] for run in runs])} | {memory:.0f} |")
    machine = results["machine"]
    lines.append(
        f"\nA process that only imports torch, starts CUDA and makes the weights: {_range(results['floor'])} s."
    )
    lines.append(f"{machine['gpu']}, Python {machine['python']}, torch {machine['torch']}.")
    return "\n".join(lines) + "\n"


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def deployment(seen: Mapping[str, Any]) -> str:
    """What the load test saw."""
    right, sent, by = seen["right"], seen["requests"], seen["by"]
    middle, most, longest = (f"{seen[name]:.0f}" for name in ("median ms", "99th percentile ms", "longest ms"))
    under_way, late = seen["under way at SIGTERM"], seen["sent to it after SIGTERM"]
    stop = seen["seconds to stop"]["first"]
    return f"""\
On one {seen["machine"]["gpu"]}, {seen["clients"]} clients sent {sent} requests: {right} were answered correctly, and
{sent - right} lost or wrong. The first process answered {by["first"]}, the second {by["second"]}. At SIGTERM,
{under_way} were under way, and {late} more were sent to the first process, which exited after {stop:.1f} s.
The median latency was {middle} ms, the 99th percentile {most} ms, and the longest {longest} ms.
"""


def written(page: str, name: str, lines: str) -> str:
    """The page with other lines between the marks of a name.

    >>> written("a\\n<!-- begin x -->\\nold\\n<!-- end x -->\\nb", "x", "new\\n")
    'a\\n<!-- begin x -->\\nnew\\n<!-- end x -->\\nb'
    """
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    before, rest = page.split(begin)
    return before + begin + lines + end + rest.split(end)[1]


def pages() -> dict[Path, str]:
    """The files as they should be."""
    starts, seen = (json.loads(path.read_text()) for path in (STARTS, LOAD))
    page = written(written(PAGE.read_text(), "starts", table(starts)), "deployment", deployment(seen))
    return {PAGE: page}


def main() -> int:
    """Write the page."""
    for path, text in pages().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
