"""How long a call takes on the host, and how soon a first result is there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pictures.bars import Bar, Part, draw
from pictures.svg import FULL, Picture


def picture(figures: Mapping[str, Any], width: int = FULL) -> str:
    """A bar for each way to launch the same small kernel."""
    rows = sorted(figures["call"], key=lambda row: (row["us"], row["what"]))
    bars = []
    for row in rows:
        ours = row["what"].startswith("precast")
        note = f"{row['what']}: {row['us']} us"
        bars.append(
            Bar(row["what"], [Part(row["us"], "ours" if ours else "peer", note)], f"{row['us']:.1f} µs", bold=ours)
        )
    picture = Picture(width, 0, "Host time of a call with small tensors, in microseconds")
    picture.height = draw(picture, bars, 0, 8, width - 8) + 8
    return picture.to_svg()
