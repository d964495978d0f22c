"""Measured: the times of some variants on one problem, and several of these as one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.config import canonical
from precast.loader.contract.format.patterns import NAME, SHA256, Pattern
from precast.loader.contract.format.target import Capability, parse_capability
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

_GPU = Pattern(r"[ -~]{1,128}", lambda t: 0 < len(t) <= 128 and t.isascii() and t.isprintable())
LONGEST = 1e12  # microseconds: eleven days
LARGEST = 2**63 - 1
VARIANTS = 10_000


class Measured(Immutable, kw_only=True):
    """One problem on one GPU: the microseconds that a launch took, by the key of the artifact.

    ``tilings`` has the tilings of those artifacts whose author declares one.
    """

    gpu: str
    capability: Capability
    problem: Mapping[str, int]
    times: Mapping[str, float]
    tilings: Mapping[str, Tiling] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str, bytes]:  # words: allow
        """The identity of a measurement: a table holds it at most once, and is sorted by it."""
        return str(self.capability), self.gpu, canonical(dict(self.problem))

    def to_json(self) -> dict[str, Any]:
        tilings = {key: tiling.to_json() for key, tiling in self.tilings.items()}
        return {
            "capability": str(self.capability),
            "gpu": self.gpu,
            "problem": dict(self.problem),
            "times": dict(self.times),
            **({"tilings": tilings} if tilings else {}),
        }

    @classmethod
    def parse(cls, value: object) -> Measured:
        data = fields.known(fields.as_object(value), ("gpu", "capability", "problem", "times", "tilings"))
        times = fields.table(data, "times", _time, most=VARIANTS)
        for key in times:
            if not SHA256.admits(key):
                raise FormatError("not an artifact's key", f"times.{key[:80]}")
        gpu, capability = read_machine(data)
        problem = fields.parsed(data, "problem", parse_problem)
        tilings = fields.table(data, "tilings", Tiling.parse, most=VARIANTS, default={})
        for key, tiling in tilings.items():
            if key not in times:
                raise FormatError("this artifact has no time", f"tilings.{key[:80]}")
            check_axes(tiling, problem, f"tilings.{key[:80]}")
        return cls(gpu=gpu, capability=capability, problem=problem, times=times, tilings=tilings)


def parse_problem(value: object) -> dict[str, int]:
    """A problem: sizes by name."""
    problem = {n: fields.count({n: v}, n, most=LARGEST) for n, v in fields.as_object(value).items()}
    if not problem or len(problem) > 32 or not all(NAME.admits(n) for n in problem):
        raise FormatError("expected a problem: sizes by name, at least 1 and at most 32")
    return problem


def _time(value: object) -> float:
    if type(value) not in (int, float) or not 0 < value <= LONGEST:  # type: ignore[operator]
        raise FormatError("expected a positive number of microseconds")
    return float(value)  # type: ignore[arg-type]


def read_machine(data: fields.Object) -> tuple[str, Capability]:
    """The GPU of measurements, and its compute capability."""
    gpu = fields.matching(data, "gpu", _GPU, "the name of a GPU")
    return gpu, fields.parsed(data, "capability", lambda v: parse_capability(fields.text(v)))


def check_axes(tiling: Tiling, problem: Mapping[str, int], path: str) -> None:
    """Raise a FormatError for a tiling of an axis that a problem does not have."""
    if not tiling.cuts(problem):
        raise FormatError("the tile has an axis that the problem does not have", path)
