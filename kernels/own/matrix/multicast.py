"""How several blocks of a cluster load one side of their tiles together."""

from __future__ import annotations

from dataclasses import dataclass

_SWIZZLED = 8  # lines that TMA's swizzle takes together


@dataclass(frozen=True, slots=True)
class Multicast:
    """``parts`` blocks load a part each in every step, for all of them, or ``turns`` blocks a whole step in turn.

    >>> Multicast.of(128, 4), Multicast.of(72, 2)
    (Multicast(parts=4, turns=1), Multicast(parts=1, turns=2))
    """

    parts: int
    turns: int

    @classmethod
    def of(cls, length: int, blocks: int) -> Multicast:
        """In parts where they end between lines that are swizzled together, else in turns."""
        whole = length % (_SWIZZLED * blocks) == 0
        return cls(blocks if whole else 1, 1 if whole else blocks)

    @property
    def shared(self) -> bool:
        """Whether it is more than one block."""
        return self.parts * self.turns > 1
