"""How many times as fast as its best peer a kernel is: by bytes, products by m, layers of a model by tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from typing import Any

from pictures.panels import Grid, Panel, Point
from pictures.scale import amount
from pictures.svg import FULL, NARROW, TIMES, Picture

Rows = Sequence[Mapping[str, Any]]
LEVEL = 0.03  # two times that differ by less count as one
LEGEND = [("ours", "as fast as the best peer, or faster"), ("behind", f"slower by more than {LEVEL:.0%}")]
M_TICKS = ((1, "m 1"), (10, "10"), (100, "100"), (1000, "1000"), (16384, "16384"))


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean.

    >>> mean([0.5, 2.0])
    1.0
    """
    return exp(sum(log(ratio) for ratio in ratios) / len(ratios))


def panel(name: str, points: Sequence[Point], mark: str = "mean ") -> Panel:
    """A panel that says the mean of its ratios."""
    return Panel(name, points, f"{mark}{mean([point.ratio for point in points]):.2f}{TIMES}")


def memory_bound(rows: Rows, width: int = FULL) -> str:
    """A panel for each op."""
    panels: dict[str, list[Point]] = {}
    for row in rows:
        peer, taken = min(row["peers"].items(), key=lambda item: (item[1], item[0]))
        ratio = taken / row["us"]
        config = [f"{name} {value}" for name, value in {**row["config"], **row["problem"]}.items() if name != "dtype"]
        times = f"{ratio:.2f} times as fast as {peer} ({row['us']:.1f} and {taken:.1f} us)"
        note = f"{row['op']} {', '.join(config)}: {times}"
        panels.setdefault(row["op"], []).append(Point(row["bytes"], ratio, note))
    ticks = [(size, amount(size)) for size in (1e6, 3e7, 1e9)]
    narrow = width <= NARROW
    grid = Grid(
        columns=2 if narrow else 3, high=84, sizes=(1e5, 2.5e9), ratios=(0.8, 6), ratio_ticks=(1, 2, 4),
        size_ticks=ticks, level=LEVEL, width=width, left=28 if narrow else 38, gap=10 if narrow else 14,
    )  # fmt: skip
    picture = Picture(width, 0, "The time of the best peer over ours, by bytes moved, a panel for each op")
    mark = "" if narrow else "mean "
    grid.draw(picture, [panel(op, points, mark) for op, points in panels.items()])
    picture.height = picture.legend(grid.left, grid.height(len(panels)) + 10, LEGEND) + 12
    return picture.to_svg()


def product_points(rows: Rows) -> Iterator[Point]:
    """A point for each measured product."""
    for row in rows:
        size = row["size"]
        shape = f"m {size['m']}, n {size['n']}, k {size['k']} ({size['model']}, {size['layer']})"
        yield Point(size["m"], row["ratio"], f"{shape}: {row['ratio']:.2f} times as fast as torch")


def products(reports: Sequence[Mapping[str, Any]], width: int = FULL) -> str:
    """A panel for each dtype: the time of torch's product over ours."""
    grid = Grid(
        columns=max(2, len(reports)) if width > NARROW else 1, high=150, sizes=(0.8, 20000), ratios=(0.76, 1.28),
        ratio_ticks=(0.8, 0.9, 1, 1.1, 1.2), size_ticks=M_TICKS, level=LEVEL, width=width,
    )  # fmt: skip
    picture = Picture(width, 0, "The time of torch's matrix product over ours, by the number of rows m")
    grid.draw(picture, [panel(report["dtype"], list(product_points(report["rows"]))) for report in reports])
    entries = [("ours", "as fast as torch, or faster"), LEGEND[1]]
    picture.height = picture.legend(grid.left, grid.height(len(reports)) + 10, entries) + 12
    return picture.to_svg()


def layers(report: Mapping[str, Any], compiled: Mapping[str, Any] | None, width: int = FULL) -> str:
    """The layers of a model: torch's time over ours, and that of torch.compile where it was measured."""
    panels = [panel("torch", [_layers_point(row, "ratio", "torch") for row in report["rows"]])]
    if compiled:
        key = "ratio to torch.compile"
        points = [_layers_point(row, key, "torch.compile") for row in compiled["rows"] if key in row]
        panels.append(panel("torch.compile", points))
    grid = Grid(
        columns=2 if width > NARROW else 1, high=110, sizes=(0.8, 5000), ratios=(0.95, 1.65),
        ratio_ticks=(1, 1.2, 1.4, 1.6), level=LEVEL, width=width,
        size_ticks=((1, "1 token"), (16, "16"), (128, "128"), (1024, "1024"), (4096, "4096")),
    )  # fmt: skip
    title = "The time of torch over ours for layers of Llama 3 8B, by tokens"
    picture = Picture(width, grid.height(len(panels)), title)
    grid.draw(picture, panels)
    return picture.to_svg()


def _layers_point(row: Mapping[str, Any], key: str, peer: str) -> Point:
    return Point(row["tokens"], row[key], f"{row['tokens']} tokens: {row[key]:.2f} times as fast as {peer}")
