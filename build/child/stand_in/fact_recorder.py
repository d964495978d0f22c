"""The fact recorder: the facts of a worker's GPU, and a record of those that were requested."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from precast.loader.errors import PrecastError


class UnknownFact(PrecastError):
    """A kernel requested a fact of its GPU that the profile does not have."""

    code = "PCB18"


class FactRecorder:
    """A profile's facts, and a record of those that were requested since the process began, or since it was forked."""

    def __init__(self, name: str, facts: Mapping[str, int | str]) -> None:
        self._name = name
        self._facts = facts
        self._requested: dict[str, int | str | None] = {}

    def use_profile(self, name: str, facts: Mapping[str, int | str]) -> None:
        """Use the facts of another GPU from now on."""
        self._name, self._facts = name, facts

    def forget(self) -> None:
        """Clear the record."""
        self._requested = {}

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """While the block runs, requests are not recorded."""
        before = dict(self._requested)
        try:
            yield
        finally:
            self._requested = before

    def requested(self) -> dict[str, int | str | None]:
        """The facts that were requested, with their values; None for a fact that the profile lacks."""
        return dict(sorted(self._requested.items()))

    def get(self, name: str) -> int | str | None:
        """One fact, recorded; None if the profile does not have it."""
        value = self._facts.get(name)
        self._requested[name] = value
        return value

    def need(self, name: str) -> Any:
        """One fact, recorded; raises UnknownFact."""
        value = self.get(name)
        if value is None:
            raise UnknownFact(
                f"the profile {self._name} does not have {name!r}, which this kernel requests: "
                "build with --profile-from-device on a machine with such a GPU, or choose another one with --profile"
            )
        return value
