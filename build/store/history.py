"""History: the inputs of each variant when it was last built, to explain why it is built again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from precast.build.disk.memo import Memo, memo_key
from precast.build.gpu.profile import Profile
from precast.build.plan.variant import Variant
from precast.build.store.lookup import Lookup
from precast.build.store.record import Record
from precast.loader.contract.format.config import canonical

_KIND = "history"
PARTS = "parts"  # the kind of note of what a key was made of
_CODE = ("source", "seam")  # digests of code: named by its files where these are known


@dataclass(frozen=True, slots=True)
class Change:
    """An input of a variant that has changed since it was built. A value of "" means that it was, or is, missing.

    >>> str(Change("file:search/tiles.json", "60e05bd1b195af2f", ""))
    'file:search/tiles.json: 60e05bd1b195af2f, now nothing'
    """

    name: str
    then: str
    now: str

    def __str__(self) -> str:
        return f"{self.name}: {self.then or 'nothing'}, now {self.now or 'nothing'}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a variant is reused; if not, what has changed since it was built: nothing if it was never built."""

    variant: Variant
    reused: bool
    changes: tuple[Change, ...] = ()

    def __str__(self) -> str:
        if self.reused:
            return f"{self.variant}: reused"
        why = "; ".join(map(str, self.changes)) or "this store has no record of it"
        return f"{self.variant}: built, {why}"

    def to_json(self) -> dict[str, Any]:
        """As ``precast plan --explain --json`` prints it."""
        changes = [{"name": c.name, "then": c.then, "now": c.now} for c in self.changes]
        return {**self.variant.to_json(), "reused": self.reused, "changes": changes}


def note_built(memo: Memo, variant: Variant, parts: Mapping[str, Any], record: str) -> None:
    """Remember the parts of a variant's key, and the key of its record."""
    memo.put(_KIND, memo_key(variant.identity_on_gpu), {"parts": flat(parts), "record": record})


def explain(lookup: Lookup, variant: Variant, key: str, parts: Mapping[str, Any], profile: Profile) -> Verdict:
    """Whether a build would reuse a variant at this moment, or why not."""
    if lookup.find(key, profile) is not None:
        return Verdict(variant, reused=True)
    noted = lookup.store.notes.get(_KIND, memo_key(variant.identity_on_gpu))
    if not isinstance(noted, dict) or not isinstance(noted.get("parts"), dict):
        return Verdict(variant, reused=False)
    then, now = {str(name): str(value) for name, value in noted["parts"].items()}, flat(parts)
    changes = [*_inputs(lookup, str(noted.get("record")), profile), *differing(then, now)]
    named = [change for change in changes if change.name.partition(".")[0] not in _CODE]
    return Verdict(variant, reused=False, changes=tuple(named or changes))


def _inputs(lookup: Lookup, record_key: str, profile: Profile) -> Iterator[Change]:
    """The inputs and the facts of the GPU that have changed since the last record."""
    record = lookup.store.read(record_key) if len(record_key) == 64 and record_key.isalnum() else None
    if record is None:
        return
    for inputs in (record.inputs, record.installed):
        answers = lookup.answers.answers(inputs.names)
        for name in inputs.changed(answers):
            yield Change(name, _short(inputs.answers[name]), _short(answers[name]))
    for name, answer in profile.answers(record.assumed).items():
        if answer != record.assumed[name]:
            yield Change(f"gpu {name}", str(record.assumed[name]), str(answer))


def differing(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[Change]:
    """A change for each part that differs."""
    for name in sorted(then.keys() | now.keys()):
        if then.get(name) != now.get(name):
            yield Change(name, _short(then.get(name)), _short(now.get(name)))


def flat(parts: Mapping[str, Any]) -> dict[str, str]:
    """The parts of a key by dotted names, as texts."""
    flat: dict[str, str] = {}
    for name, value in parts.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}.{inner}": str(part) for inner, part in value.items()}
        else:
            flat[name] = value if isinstance(value, str) else canonical(value).decode()
    return flat


def _short(answer: str | None) -> str:
    """A value for people: of a digest the first letters are enough."""
    if answer is None:
        return ""
    return " ".join(word[:12] if len(word) >= 40 else word for word in answer.split())


def note_parts(memo: Memo, record: Record, parts: Mapping[str, Any]) -> None:
    """Remember what a record's key was made of."""
    memo.put(PARTS, record.key, made_of(parts, record))


def made_of(parts: Mapping[str, Any], record: Record) -> dict[str, str]:
    """The parts of a record's key by name: those that are known before it compiles, and what it read and requested."""
    read = {**record.installed.answers, **record.inputs.answers}
    return {
        **flat(parts),
        **{name: "" if answer is None else answer for name, answer in read.items()},
        **{f"gpu {name}": str(answer) for name, answer in record.assumed.items()},
    }
