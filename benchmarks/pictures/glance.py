"""The picture of README.md: how soon a service answers, and matrix products next to torch's."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from pictures.bars import Bar, Part, draw
from pictures.panels import WIDTH, Grid, Panel
from pictures.ratios import M_TICKS, mean, product_points
from pictures.starts import by_case, means
from pictures.svg import TIMES, Picture

CASES = {"attached": "precast", "libraries' disk caches": "disk caches", "just-in-time": "just-in-time"}
COMPILING = ("model", "warm-up", "preload", "first answer")
MIDDLE = 386


def picture(starts: Mapping[str, Any], products: Mapping[str, Any]) -> str:
    """Both halves."""
    cases = by_case(starts["runs"])
    bars = []
    for case, name in CASES.items():
        parts = means(cases[case])
        kernels = sum(parts[part] for part in COMPILING)
        importing = sum(parts.values()) - kernels
        kind = "ours" if case == "attached" else "wait"
        shown = [
            Part(importing, "pale", f"imports: {importing:.2f} s"),
            Part(kernels, kind, f"kernels: {kernels:.2f} s"),
        ]
        seconds = median(run["answered"] for run in cases[case])
        bars.append(Bar(name, shown, f"{seconds:.1f} s", bold=case == "attached"))
    picture = Picture(WIDTH, 236, "Seconds until a service first answers; and torch's matrix products' time over ours")
    picture.text(8, 20, "A service's first answer", "title")
    picture.text(8, 38, "four layers of Llama 3 8B, from the start of the process", "small", fill="soft")
    bottom = draw(picture, bars, 0, 68, MIDDLE - 34)
    entries = [("pale", "Python imports"), ("ours", "kernels loaded"), ("wait", "kernels compiled")]
    picture.legend(8, bottom + 22, entries)
    picture.text(MIDDLE + 12, 20, "gemm, compared with torch.mm", "title")
    ratio = mean([row["ratio"] for row in products["rows"]])
    count = len(products["rows"])
    about = f"{products['dtype']}, {count} sizes of models: {ratio:.2f}{TIMES} its speed in the mean"
    picture.text(MIDDLE + 12, 38, about, "small", fill="soft")
    grid = Grid(
        columns=1, high=140, sizes=(0.8, 20000), ratios=(0.88, 1.28), ratio_ticks=(0.9, 1, 1.1, 1.2),
        size_ticks=M_TICKS, top=34, x=MIDDLE, width=WIDTH - MIDDLE, level=0.03,
    )  # fmt: skip
    grid.draw(picture, [Panel("", list(product_points(products["rows"])))])
    picture.text(WIDTH - 12, 66, "faster than torch ↑", "small", fill="soft", at="end")
    machine = starts["machine"]
    picture.text(8, 224, f"{machine['gpu']}, torch {machine['torch']}", "small", fill="soft")
    return picture.to_svg()
