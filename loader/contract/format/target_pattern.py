"""Target patterns: the targets that a kernel says it can be built for."""

from __future__ import annotations

from collections.abc import Iterable

from precast.loader.contract.format.target import Target
from precast.loader.contract.values import Immutable
from precast.loader.errors import TargetError


class TargetPattern(Immutable):
    """What a kernel says it can be built for: ``sm_90a`` exactly, or ``sm_80+`` for that and anything newer.

    >>> TargetPattern.parse("sm_80+").admits(Target.parse("sm_100a"))
    True
    """

    target: Target
    newer: bool = False

    @classmethod
    def parse(cls, text: str) -> TargetPattern:
        """Read ``sm_90a`` or ``sm_80+``."""
        newer = isinstance(text, str) and text.endswith("+")
        target = Target.parse(text[:-1] if newer else text)
        if newer and target.suffix:
            raise TargetError(
                f"{text!r}: '+' goes with a plain target, since 'a' and 'f' features do not carry over: "
                f"write 'sm_{target.major}{target.minor}+'"
            )
        return cls(target, newer)

    def __str__(self) -> str:
        return f"{self.target}{'+' if self.newer else ''}"

    def admits(self, target: Target) -> bool:
        """Whether a kernel that says this can be built for ``target``."""
        return target.capability >= self.target.capability if self.newer else target == self.target


def admitted(patterns: Iterable[str], target: Target) -> bool:
    """Whether any of the patterns admits the target; no pattern at all admits every target."""
    parsed = [TargetPattern.parse(p) for p in patterns]
    return not parsed or any(p.admits(target) for p in parsed)
