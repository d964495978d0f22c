"""The facts that a worker gives about its GPU, and a record of those that were asked for."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from precast.loader.errors import PrecastError

# Not recorded: their caches hold nothing of a kernel's, and must not be emptied.
_IGNORED = frozenset({"precast.build", "__main__", "importlib", "functools", "cutlass", "cuda", "torch"})


class UnknownFact(PrecastError):
    """A kernel asked for a fact of its GPU that the profile does not have."""


class FactRecorder:
    """A profile's facts, and a record of which were asked for: by each compilation, and while modules were imported.

    A package that asked may keep the answer: in a function's cache, or in what a module computed when it was imported.
    ``askers`` names these packages, so that their caches can be emptied before the next compilation. What was asked at
    import counts for every compilation that the package takes part in.
    """

    def __init__(self, name: str, facts: Mapping[str, int | str]) -> None:
        self._name = name
        self._facts = facts
        self._asked: dict[str, int | str | None] = {}
        self._imported: dict[str, dict[str, int | str | None]] = {}
        self.askers: set[str] = set()

    def use_profile(self, name: str, facts: Mapping[str, int | str]) -> None:
        """From now on, answer with the facts of another GPU."""
        self._name, self._facts = name, facts

    def begin(self, package: str) -> None:
        """Start the record of a compilation of this package."""
        self._asked = {}
        for asker in {package, *self.askers}:
            self._asked.update(self._imported.get(asker, {}))

    def asked(self) -> dict[str, int | str | None]:
        """The facts that the compilation asked for, with the answers; None for one that the profile lacks."""
        return dict(sorted(self._asked.items()))

    def get(self, name: str) -> int | str | None:
        """One fact, recorded; None where the profile does not have it."""
        value = self._facts.get(name)
        self._asked[name] = value
        packages, importing = packages_here()
        self.askers |= packages
        if importing:
            for package in packages:
                self._imported.setdefault(package, {})[name] = value
        return value

    def need(self, name: str) -> Any:
        """One fact, recorded, or an UnknownFact that says how to supply it."""
        value = self.get(name)
        if value is None:
            raise UnknownFact(
                f"the profile {self._name} does not know {name!r}, which this kernel asks of its GPU: "
                "build with --profile-from-device on a machine that has one, or choose another profile with --profile"
            )
        return value


def packages_here() -> tuple[set[str], bool]:
    """The packages on the stack, and whether a module is being imported."""
    packages: set[str] = set()
    importing = False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        top = module.partition(".")[0]
        if top not in _IGNORED and not module.startswith("precast.build") and top not in sys.stdlib_module_names:
            packages.add(top)
            importing |= frame.f_code.co_name == "<module>"
        frame = frame.f_back
    return packages, importing
