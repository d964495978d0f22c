"""Draw the pictures of the pages from benchmarks/results: ``python benchmarks/draw.py`` writes docs/images.

The same results give the same bytes. ``make bench`` draws them, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pictures import badges, calls, engine, pipeline, ratios, stages, starts, terminal
from pictures.svg import NARROW

from precast.build.link.versions import RELEASES

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"
PROJECT = ROOT / "pyproject.toml"
GPU = "nvidia-h200"


def drawn(results: Path = RESULTS) -> dict[str, str]:
    """Each picture by the name of its file. ``NAME-narrow.svg`` is the one for a telephone."""

    def read(name: str) -> Any:
        return json.loads((results / name).read_text())

    def part(name: str) -> Any:
        return read(f"{GPU}/{name}.json")["data"]

    def both(name: str, draw: Callable[..., str], *given: Any) -> dict[str, str]:
        return {f"{name}.svg": draw(*given), f"{name}-narrow.svg": draw(*given, width=NARROW)}

    products = part("gemm-bfloat16")
    return {
        "pipeline.svg": stages.draw(),
        **both("badges", badges.picture, badges.facts(PROJECT.read_text(), [release.dsl for release in RELEASES])),
        **both("pipeline-short", pipeline.draw),
        **both("first-run", terminal.picture, read("first-run.json")),
        **both("engine", engine.picture, read("engine-start.json")),
        **both("memory-bound", ratios.memory_bound, part("memory-bound")["rows"]),
        **both("gemm", ratios.products, [products, part("gemm-float8")]),
        **both("llama", ratios.layers, part("llama"), part("llama-compile")),
        **both("calls", calls.picture, part("figures")),
        **both("serving-start", starts.picture, read("serving-start.json")),
    }


def main() -> int:
    """Write them."""
    for name, text in drawn().items():
        (IMAGES / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
