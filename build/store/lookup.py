"""Lookup: the record of a variant whose facts and inputs have, at this moment, the values that it was built with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from precast.build.gpu.profile import Profile
from precast.build.inputs.input_answers import InputAnswers
from precast.build.store.key import record_key
from precast.build.store.record import Record
from precast.build.store.requested_facts import RequestedFacts
from precast.build.store.store import Store

_PARALLEL = 16

Request = tuple[str, Profile]
"""The key of a variant, and the GPU that it is built for."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """The records of a store that a build can use. ``answers`` has the values of the inputs at this moment."""

    store: Store
    answers: InputAnswers

    def find(self, key: str, profile: Profile) -> Record | None:
        """The record of a variant's key, or None.

        A record must confirm its key: one under a key that its own facts and inputs do not make is not used.
        """
        for candidate in self._record_keys(key, profile):
            record = self.store.read(candidate)
            if record is not None and self._agrees(record, key, candidate):
                return record
        return None

    def record_key(self, key: str, profile: Profile) -> str | None:
        """The key of the record that ``find`` would read first; None where this machine has no such file."""
        return next((name for name in self._record_keys(key, profile) if self.store.record_file(name).is_file()), None)

    def prefetch(self, requests: Iterable[Request]) -> None:
        """Fetch what the remote cache has of these variants, several files at a time."""
        if self.store.remote is None:
            return
        with ThreadPoolExecutor(_PARALLEL) as pool:
            for _ in pool.map(lambda request: self.find(*request), requests):
                pass

    def share(self, requests: Iterable[Request]) -> None:
        """Send what this machine has of these variants, and the remote cache lacks."""
        self.store.send_missing(file for key, profile in requests for file in self._files(key, profile))

    def _files(self, key: str, profile: Profile) -> Iterator[tuple[str, str]]:
        """The key and the kind of each file of a variant."""
        yield key, "asked"
        for record in self._record_keys(key, profile, fetch=False):
            yield record, "record"

    def _record_keys(self, key: str, profile: Profile, *, fetch: bool = True) -> Iterator[str]:
        """The keys that a record of a variant may have at this moment, one for each set of facts that it requested."""
        for requested in self.store.requested(key, fetch=fetch):
            if (record := self._record_key(key, profile, requested)) is not None:
                yield record

    def _record_key(self, key: str, profile: Profile, requested: RequestedFacts) -> str | None:
        """None where an installed package has changed."""
        if requested.digest != self.answers.digest(requested.installed):
            return None
        return record_key(key, profile.answers(requested.facts), self.answers.answers(requested.inputs))

    def _agrees(self, record: Record, key: str, candidate: str) -> bool:
        if record_key(key, record.assumed, record.inputs.answers) != candidate:
            self.store.refuse(self.store.record_file(candidate), "its facts and inputs belong to another key")
            return False
        return not record.installed.changed(self.answers.answers(record.installed.names))
