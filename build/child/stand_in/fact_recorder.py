"""The facts that a worker gives about its GPU, and a record of those that were asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from precast.loader.errors import PrecastError


class UnknownFact(PrecastError):
    """A kernel asked for a fact of its GPU that the profile does not have."""

    code = "PCB18"


class FactRecorder:
    """A profile's facts, and a record of which were asked for since the process began, or since it was forked."""

    def __init__(self, name: str, facts: Mapping[str, int | str]) -> None:
        self._name = name
        self._facts = facts
        self._asked: dict[str, int | str | None] = {}

    def use_profile(self, name: str, facts: Mapping[str, int | str]) -> None:
        """From now on, answer with the facts of another GPU."""
        self._name, self._facts = name, facts

    def forget(self) -> None:
        """Begin the record anew."""
        self._asked = {}

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Inside, what is asked for is answered, and leaves no trace in the record."""
        before = dict(self._asked)
        try:
            yield
        finally:
            self._asked = before

    def asked(self) -> dict[str, int | str | None]:
        """The facts that were asked for, with the answers; None for one that the profile lacks."""
        return dict(sorted(self._asked.items()))

    def get(self, name: str) -> int | str | None:
        """One fact, recorded; None where the profile does not have it."""
        value = self._facts.get(name)
        self._asked[name] = value
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
