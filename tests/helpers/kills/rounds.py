"""Every kind of process that can be struck."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.kills import build_rounds
from tests.helpers.kills.tally import Tally

KINDS = build_rounds.KINDS


def strike(kind: str, number: int, folder: Path, seed: int) -> Tally:
    """Strike processes of this kind so many times, at moments that the seed decides."""
    return build_rounds.strike_builds(kind, number, folder, seed)
