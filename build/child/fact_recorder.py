"""Answers: what a worker says of its GPU, and the record of everything that was asked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from precast.loader.errors import PrecastError

# Never counted: their caches hold nothing of a kernel's, and emptying them is not ours to do.
_BYSTANDERS = frozenset({"precast.build", "__main__", "importlib", "functools", "cutlass", "cuda", "torch"})


class UnknownFact(PrecastError):
    """A kernel asked something of its GPU that the profile does not know."""


class FactRecorder:
    """A profile's facts, and a record of which were asked for: by each compilation, and while modules were imported.

    An answer may be remembered by whoever asked: in a function's cache, or in what a module computed when it was
    imported. ``askers`` names the packages that could have, so that their caches can be emptied before the next
    compilation; what was asked at import counts for every compilation that the package takes part in.
    """

    def __init__(self, name: str, facts: Mapping[str, int | str]) -> None:
        self._name = name
        self._facts = facts
        self._asked: dict[str, int | str | None] = {}
        self._imported: dict[str, dict[str, int | str | None]] = {}
        self.askers: set[str] = set()

    def speak_for(self, name: str, facts: Mapping[str, int | str]) -> None:
        """From now on, answer for another GPU."""
        self._name, self._facts = name, facts

    def begin(self, package: str) -> None:
        """Start the record of a compilation of this package's."""
        self._asked = {}
        for asker in {package, *self.askers}:
            self._asked.update(self._imported.get(asker, {}))

    def asked(self) -> dict[str, int | str | None]:
        """What the compilation has asked, and what it was told; None where the profile does not know."""
        return dict(sorted(self._asked.items()))

    def get(self, name: str) -> int | str | None:
        """One fact, recorded; None where the profile does not know it."""
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
                "build with --profile-from-device where such a GPU is, or choose a profile that knows it with --profile"
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
        if top not in _BYSTANDERS and not module.startswith("precast.build") and top not in sys.stdlib_module_names:
            packages.add(top)
            importing |= frame.f_code.co_name == "<module>"
        frame = frame.f_back
    return packages, importing
