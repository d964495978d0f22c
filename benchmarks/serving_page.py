"""The figures of docs/serving.md, out of what was measured: ``python benchmarks/serving_page.py``.

``serving.py`` measures the starts, and the load test of examples/serving the deployment; both are kept in
benchmarks/results. The same results give the same bytes, of the lines between the marks of the page and of the picture.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
STARTS, LOAD = (ROOT / "benchmarks" / "results" / f"serving-{name}.json" for name in ("start", "load"))
PAGE, PICTURE = ROOT / "docs" / "serving.md", ROOT / "docs" / "images" / "serving-start.svg"

Run = Mapping[str, Any]
PARTS = {
    "process": ("the interpreter, torch and Starlette imported", "#79a5c9"),
    "imports": ("quack and FlashAttention-4 imported", "#4c78a8"),
    "preload": ("kernels loaded", "#54a24b"),
    "model": ("weights; precast's own kernels where they are compiled", "#bab0ac"),
    "warm-up": ("first calls; the libraries' kernels where they are compiled", "#e45756"),
    "first answer": ("first answer", "#f2cf5b"),
}
_LEFT, _WIDTH, _BAR, _STEP, _TOP = 190, 560, 22, 34, 14


def parts_of(run: Run) -> dict[str, float]:
    """Where the seconds of one start went.

    >>> phases = {"imports": 3.0, "preload": 0.5, "model": 0.5, "warm-up": 0.5}
    >>> parts_of({"listens": 5.0, "answered": 5.5, "phases": phases})
    {'process': 0.5, 'imports': 3.0, 'preload': 0.5, 'model': 0.5, 'warm-up': 0.5, 'first answer': 0.5}
    """
    phases: Mapping[str, float] = run["phases"]
    before, after = run["listens"] - sum(phases.values()), run["answered"] - run["listens"]
    seconds = {"process": before, **phases, "first answer": after}
    return {name: seconds[name] for name in PARTS}


def by_case(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each case, in the order in which the cases first appear."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run["case"], []).append(run)
    return found


def table(results: Mapping[str, Any]) -> str:
    """Medians, with the least and the most."""
    lines = [
        "| | runs | seconds to listening | seconds to the first answer | resident memory, MB | anonymous memory, MB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for case, runs in by_case(results["runs"]).items():
        times = [_range([run[name] for run in runs]) for name in ("listens", "answered")]
        memory = [f"{median(run['memory'][name] for run in runs):.0f}" for name in ("resident", "anonymous")]
        lines.append(f"| {case} | {len(runs)} | {' | '.join([*times, *memory])} |")
    machine = results["machine"]
    lines.append(f"\n{machine['gpu']}, Python {machine['python']}, torch {machine['torch']}.")
    return "\n".join(lines) + "\n"


def _range(values: Sequence[float]) -> str:
    return f"{median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def picture(results: Mapping[str, Any]) -> str:
    """A bar for each case: the mean of each part of its start, and the median of all."""
    cases = by_case(results["runs"])
    most = max(sum(means(runs).values()) for runs in cases.values())
    height = _TOP + _STEP * len(cases) + 30 + 18 * len(PARTS)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 70} {height}" font-family="sans-serif"'
        f' font-size="13"><rect width="100%" height="100%" fill="#fff"/>'
    ]
    for place, (case, runs) in enumerate(cases.items()):
        lines += _bar(case, runs, _TOP + _STEP * place, _WIDTH / most)
    for place, (name, color) in enumerate(PARTS.values()):
        top = _TOP + _STEP * len(cases) + 14 + 18 * place
        lines.append(f'<rect x="{_LEFT}" y="{top}" width="12" height="12" fill="{color}"/>')
        lines.append(f'<text x="{_LEFT + 20}" y="{top + 11}" fill="#333">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>\n"])


def means(runs: Sequence[Run]) -> dict[str, float]:
    """The mean seconds of each part."""
    parts = [parts_of(run) for run in runs]
    return {name: fmean(part[name] for part in parts) for name in PARTS}


def _bar(case: str, runs: Sequence[Run], top: int, scale: float) -> Iterator[str]:
    yield f'<text x="{_LEFT - 10}" y="{top + 16}" text-anchor="end" fill="#333">{escape(case)}</text>'
    left = float(_LEFT)
    for name, seconds in means(runs).items():
        width = seconds * scale
        yield (
            f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR}" fill="{PARTS[name][1]}">'
            f"<title>{escape(PARTS[name][0])}: {seconds:.2f} s</title></rect>"
        )
        left += width
    all_of_it = median(run["answered"] for run in runs)
    yield f'<text x="{left + 6:.1f}" y="{top + 16}" fill="#333">{all_of_it:.1f} s</text>'


def deployment(seen: Mapping[str, Any]) -> str:
    """What the load test saw."""
    times = ", ".join(f"{seen[name]:.0f}" for name in ("median ms", "99th percentile ms", "longest ms"))
    late = f"{seen['under way at SIGTERM']}, {seen['sent to it after SIGTERM']}"
    return f"""\
| on one {seen["machine"]["gpu"]} | |
| --- | --- |
| requests sent, from {seen["clients"]} clients | {seen["requests"]} |
| answered correctly | {seen["right"]} |
| lost or wrong | {seen["requests"] - seen["right"]} |
| answered by the first process, by the second | {seen["by"]["first"]}, {seen["by"]["second"]} |
| sent while the second process started | {seen["requests until the second was ready"]} |
| under way at SIGTERM, sent to that process afterwards | {late} |
| from SIGTERM to the exit of the process | {seen["seconds to stop"]["first"]:.1f} s |
| latency: median, 99th percentile, longest | {times} ms |
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
    return {PAGE: page, PICTURE: picture(starts)}


def main() -> int:
    """Write the page and the picture."""
    for path, text in pages().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
