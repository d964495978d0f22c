"""The result of a push."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    """``reference`` identifies exactly the cache that was pushed, ``digest`` is that of its index. ``sent`` counts the
    bytes that were sent, and ``kept`` those that the destination had already.
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
