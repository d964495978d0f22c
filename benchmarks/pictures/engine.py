"""The picture of README.md: how soon an engine gives its first token, and what compiles until then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pictures.bars import Bar, Part, draw
from pictures.svg import FULL, NARROW, Picture

CASES = {
    "graph, cold": "vLLM, caches empty",
    "graph, warm": "vLLM, caches warm",
    "graph, warm, served, no compiler": "precast, no compiler",
}
"""The starts that are shown, with their names: with torch.compile and CUDA graphs, as vLLM starts by default."""
KINDS = [("wait", "CuTe DSL kernels compiled"), ("behind", "Triton kernels compiled"), ("pale", "all else")]
TITLE = "Seconds from the start of vLLM to its first token: caches empty, caches warm, and kernels served by precast"


def bar_of(row: Mapping[str, Any], name: str) -> Bar:
    """A start as a bar.

    >>> row = {"cell": "x, served", "marks": {"first token": 9.0}, "until first token": {"DSL": [2, 3.0]}}
    >>> [(part.value, part.fill) for part in bar_of(row, "ours").parts]
    [(3.0, 'wait'), (0.0, 'behind'), (6.0, 'ours')]
    """
    first, kinds = row["marks"]["first token"], row["until first token"]
    ours = "served" in row["cell"]
    dsl, triton = (kinds.get(kind, [0, 0.0])[1] for kind in ("DSL", "Triton"))
    rest = first - dsl - triton
    shown = [
        Part(dsl, "wait", f"CuTe DSL kernels compiled: {dsl:.1f} s"),
        Part(triton, "behind", f"Triton kernels compiled: {triton:.1f} s"),
        Part(rest, "ours" if ours else "pale", f"all else: {rest:.1f} s"),
    ]
    return Bar(name, shown, f"{first:.0f} s", bold=ours)


def picture(results: Mapping[str, Any], width: int = FULL) -> str:
    """Three bars, and what the colours mean."""
    picture = Picture(width, 0, TITLE)
    rows = {row["cell"]: row for row in results["cells"]}
    facts = results["machines"]["vllm"]
    picture.text(8, 20, "First token of vLLM", "title")
    texts = ["seconds from the start of the process", f"Gemma 4 with experts, six layers, {facts['gpu']}"]
    top = 38
    for text in texts if width <= NARROW else [", ".join(texts)]:
        picture.text(8, top, text, "small", fill="soft")
        top += 16
    bars = [bar_of(rows[cell], name) for cell, name in CASES.items()]
    left = 0 if width <= NARROW else 8
    bottom = draw(picture, bars, left, top, width - 8 - left)
    picture.height = picture.legend(8, bottom + 18, KINDS) + 14
    return picture.to_svg()
