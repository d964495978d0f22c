"""Every kind of process that can be interrupted."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.kills import build_rounds, transfer_rounds
from tests.helpers.kills.tally import Tally
from tests.helpers.web.registry import PROGRAM

KINDS = (*build_rounds.KINDS, *transfer_rounds.KINDS)
ANY = build_rounds.ANY
MISSING = () if PROGRAM else transfer_rounds.NEED_REGISTRY
"""The kinds that cannot be interrupted here: no registry is installed."""


def interrupt(kind: str, number: int, folder: Path, seed: int) -> Tally:
    """Send a signal to processes of this kind so many times, at moments that the seed decides."""
    send_to_kind = (
        transfer_rounds.interrupt_transfers if kind in transfer_rounds.KINDS else build_rounds.interrupt_builds
    )
    return send_to_kind(kind, number, folder, seed)
