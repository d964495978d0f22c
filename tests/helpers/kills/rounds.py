"""Every kind of process that can be struck."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.kills import build_rounds, transfer_rounds
from tests.helpers.kills.tally import Tally
from tests.helpers.web.registry import PROGRAM

KINDS = (*build_rounds.KINDS, *transfer_rounds.KINDS)
ANY = build_rounds.ANY
MISSING = () if PROGRAM else transfer_rounds.NEED_REGISTRY
"""The kinds that cannot be struck here: no registry is installed."""


def strike(kind: str, number: int, folder: Path, seed: int) -> Tally:
    """Strike processes of this kind so many times, at moments that the seed decides."""
    strike_one = transfer_rounds.strike_transfers if kind in transfer_rounds.KINDS else build_rounds.strike_builds
    return strike_one(kind, number, folder, seed)
