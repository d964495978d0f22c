"""The picture of README.md: how soon a service answers, and matrix products next to torch's."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import Any

from pictures.bars import Bar, Part, draw
from pictures.panels import Grid, Panel
from pictures.ratios import M_TICKS, mean, product_points
from pictures.starts import by_case, means
from pictures.svg import FULL, NARROW, TIMES, Picture

CASES = {"attached": "precast", "libraries' disk caches": "disk caches", "just-in-time": "just-in-time"}
COMPILING = ("model", "warm-up", "preload", "first answer")
KINDS = [("pale", "Python imports"), ("ours", "kernels loaded"), ("wait", "kernels compiled")]
MIDDLE = 386
TITLE = "Seconds until a service first answers; and torch's matrix products' time over ours"


def picture(starts: Mapping[str, Any], products: Mapping[str, Any], width: int = FULL) -> str:
    """Both halves: side by side, or one under the other where the picture is narrow."""
    picture = Picture(width, 0, TITLE)
    if width <= NARROW:
        bottom = _starts(picture, starts, width) + 34
        picture.height = _products(picture, products, 0, bottom, width) + 20
    else:
        _starts(picture, starts, MIDDLE - 34)
        picture.height = _products(picture, products, MIDDLE, 0, width - MIDDLE) + 20
    machine = starts["machine"]
    text = f"{machine['gpu']}, torch {machine['torch']}"
    picture.text(8, picture.height - 8, text, "small", fill="soft")
    return picture.to_svg()


def _starts(picture: Picture, starts: Mapping[str, Any], wide: float) -> float:
    """A bar for each way to start; the y below them is returned."""
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
    picture.text(8, 20, "A service's first answer", "title")
    picture.text(8, 38, "four layers of Llama 3 8B, from the start of the process", "small", fill="soft")
    return picture.legend(8, draw(picture, bars, 0, 60, wide) + 20, KINDS)


def _products(picture: Picture, products: Mapping[str, Any], x: float, y: float, wide: float) -> float:
    """A point for each product; the y below them is returned."""
    left = x + 12 if x else 8
    picture.text(left, y + 20, "gemm, compared with torch", "title")
    ratio = mean([row["ratio"] for row in products["rows"]])
    count = len(products["rows"])
    about = f"{products['dtype']}, {count} sizes of models: {ratio:.2f}{TIMES} its speed in the mean"
    picture.text(left, y + 38, about, "small", fill="soft")
    grid = Grid(
        columns=1, high=140, sizes=(0.8, 20000), ratios=(0.76, 1.28), ratio_ticks=(0.8, 0.9, 1, 1.1, 1.2),
        size_ticks=M_TICKS, top=y + 34, x=x, width=wide, level=0.03,
    )  # fmt: skip
    grid.draw(picture, [Panel("", list(product_points(products["rows"])))])
    picture.text(x + wide - 12, y + 66, "faster than torch ↑", "small", fill="soft", at="end")
    return grid.height(1)
