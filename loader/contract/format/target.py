"""Targets: which GPU an artifact is built for, and which GPUs it runs on, by CUDA's rules.

``sm_100a`` runs on 10.0 only; ``sm_100f`` on its family, with the same or a newer minor version; plain ``sm_90`` on the
same major version, with the same or a newer minor version. The GPUs of Jetson boards run only their own targets.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from precast.loader.contract.values import Immutable
from precast.loader.errors import TargetError

# CUDA C++ Programming Guide, binary compatibility: none on Tegra, nor between Tegra and other GPUs. Those are Orin and
# Thor (developer.nvidia.com/cuda-gpus, column Jetson).
TEGRA = frozenset({(8, 7), (11, 0)})


class Capability(Immutable, order=True):
    """The compute capability of a device.

    >>> str(Capability(9, 0))
    '9.0'
    """

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


class Target(Immutable, order=True):
    """The GPUs that an artifact is built for.

    >>> Target.parse("sm_100a").runs_on(Capability(10, 3))
    False
    >>> Target.parse("sm_100f").runs_on(Capability(10, 3))
    True
    """

    major: int
    minor: int
    suffix: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read ``sm_90``, ``sm_90a`` or ``sm_100f``.

        >>> Target.parse("sm_90a")
        Target(major=9, minor=0, suffix='a')
        """
        return _parsed(text) if isinstance(text, str) else _refused(text)

    def __str__(self) -> str:
        return f"sm_{self.major}{self.minor}{self.suffix}"

    @property
    def capability(self) -> Capability:
        """The capability that the target names."""
        return Capability(self.major, self.minor)

    def runs_on(self, device: Capability) -> bool:
        """Whether a device of this capability runs code that is built for this target."""
        if self.suffix == "a" or (device.major, device.minor) in TEGRA or (self.major, self.minor) in TEGRA:
            return (device.major, device.minor) == (self.major, self.minor)
        return device.major == self.major and device.minor >= self.minor

    @property
    def rank(self) -> tuple[int, int]:
        """The sort key among targets that run on one device, the best first: exact, family, plain; then the newest.

        >>> sorted(map(Target.parse, ["sm_80", "sm_86", "sm_86a"]), key=lambda t: t.rank)[0].suffix
        'a'
        """
        return ("af".index(self.suffix) if self.suffix else 2, -self.minor)


def parse_capability(text: str) -> Capability:
    """Read ``9.0`` or ``10.3``.

    >>> parse_capability("10.3")
    Capability(major=10, minor=3)
    """
    major, _, minor = text.partition(".")
    if not (0 < _number(major) < 100 and (minor == "0" or 0 < _number(minor) < 10)):
        raise TargetError(f"{text!r} is not a compute capability: write it like '9.0'")
    return Capability(int(major), int(minor))


@functools.lru_cache(maxsize=256)  # an op has thousands of artifacts, and a few targets
def _parsed(text: str) -> Target:
    suffix = text[-1] if text.endswith(("a", "f")) else ""
    number = _number(text[3:].removesuffix(suffix)) if text[:3] == "sm_" else 0
    return Target(number // 10, number % 10, suffix) if 10 <= number < 1000 else _refused(text)


def _refused(text: object) -> Target:
    raise TargetError(f"{text!r} is not a target: write it like 'sm_90a', 'sm_100a', 'sm_100f' or 'sm_80'")


def _number(text: str) -> int:
    """A number that is written without a leading zero; 0 for any other text."""
    plain = text.isascii() and text.isdigit() and len(text) < 4 and text[0] != "0"
    return int(text) if plain else 0


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
