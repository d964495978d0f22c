"""Draw the pictures of the pages from benchmarks/results: ``python benchmarks/draw.py`` writes docs/images.

The same results give the same bytes. ``make bench`` draws them, too.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pictures import calls, glance, pipeline, ratios, stages, starts

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"
GPU = "nvidia-h200"


def drawn(results: Path = RESULTS) -> dict[str, str]:
    """Each picture by the name of its file."""

    def read(name: str) -> Any:
        return json.loads((results / name).read_text())

    def part(name: str) -> Any:
        return read(f"{GPU}/{name}.json")["data"]

    return {
        "pipeline.svg": stages.draw(),
        "pipeline-short.svg": pipeline.draw(),
        "glance.svg": glance.picture(read("serving-start.json"), part("gemm-bfloat16")),
        "memory-bound.svg": ratios.memory_bound(part("memory-bound")["rows"]),
        "gemm.svg": ratios.products([part("gemm-bfloat16"), part("gemm-float8")]),
        "llama.svg": ratios.layers(part("llama"), part("llama-compile")),
        "calls.svg": calls.picture(part("figures")),
        "serving-start.svg": starts.picture(read("serving-start.json")),
    }


def main() -> int:
    """Write them."""
    for name, text in drawn().items():
        (IMAGES / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
