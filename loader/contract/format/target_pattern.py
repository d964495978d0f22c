"""Target patterns: the targets that a kernel can be built for, as its author declares them."""

from __future__ import annotations

from collections.abc import Iterable

from precast.loader.contract.format.target import Target
from precast.loader.contract.values import Immutable
from precast.loader.errors import TargetError


class TargetPattern(Immutable):
    """One target, such as ``sm_90a``; or a target and all newer ones, such as ``sm_80+``.

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
        """Whether a kernel with this pattern can be built for ``target``."""
        return target.capability >= self.target.capability if self.newer else target == self.target


def admitted(patterns: Iterable[str], target: Target) -> bool:
    """Whether one of the patterns admits the target. Without patterns every target is admitted."""
    parsed = [TargetPattern.parse(p) for p in patterns]
    return not parsed or any(p.admits(target) for p in parsed)
