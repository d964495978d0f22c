"""What a push has done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    """``reference`` names exactly what was pushed, ``digest`` is that of the cache's index. ``sent`` counts the bytes
    that went over the network, and ``kept`` those that were there before.
    """

    reference: str
    name: str
    digest: str
    layers: int
    sent: int
    kept: int

    def to_json(self) -> dict[str, Any]:
        """As ``precast push --json`` prints it."""
        return {
            "reference": self.reference,
            "name": self.name,
            "digest": self.digest,
            "pin": f"{self.name}={self.digest}",
            "layers": self.layers,
            "sent": self.sent,
            "kept": self.kept,
        }
