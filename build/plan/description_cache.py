"""What is known of kernels: their descriptions and judgements, asked once and noted by the digest of their sources."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any

from precast.build.disk.memo import Memo, memo_key
from precast.build.inputs.sources import SourceDigests
from precast.build.link.toolchain import PACKAGES
from precast.build.plan.describer import Describer, Description, Undescribed, describing
from precast.build.plan.manifest import Asked
from precast.build.plan.plan import Variant
from precast.kernels.authoring.adapter import adapter_sources
from precast.kernels.authoring.registry import FunctionRef, find
from precast.loader.errors import FormatError, PrecastError
from precast.loader.format.config import to_json
from precast.loader.format.index import key_to_json
from precast.loader.format.target import Target

# What says how a declaration is read: when it changes, so may what is read.
_READERS = (
    "precast.build.child.describer_main",
    "precast.kernels.authoring.declare",
    "precast.loader.format.config",
)


class DescriptionCache:
    """Answers for kernels; the child process that imports them is started only when the notes do not have it all."""

    def __init__(self, search: Sequence[Path], target: Target, *, limit: float, notes: Memo | None) -> None:
        self._search, self._target, self._limit, self._notes = search, target, limit, notes
        self._sources = SourceDigests(search, notes)
        self._stack = ExitStack()
        self._child: Describer | None = None
        self._keys: dict[str, str] = {}
        self._judging: set[str] = set()
        self._readers: list[Any] = []

    def __enter__(self) -> DescriptionCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def describe(self, asked: Sequence[Asked]) -> dict[Asked, Description | Undescribed]:
        """What each kernel says of itself."""
        wanted = list(dict.fromkeys(asked))
        keys = {one: self._key(one) for one in wanted}
        found: dict[Asked, Description | Undescribed] = {
            one: noted for one, key in keys.items() if key and (noted := self._noted(key)) is not None
        }
        fresh = [one for one in wanted if one not in found]
        if fresh:
            found.update(self._ask().describe(fresh))
        for one in fresh:
            answer, key = found[one], keys[one]
            if self._notes and key and isinstance(answer, Description):
                self._notes.put("kernels", key, _to_json(answer))
        for one, answer in found.items():
            if isinstance(answer, Description) and answer.judges:
                self._judging.add(answer.source)
                self._keys[answer.source] = memo_key(self._keys.get(answer.source), keys[one]) if keys[one] else ""
        return found

    def judge(self, variants: Sequence[Variant]) -> list[str | None]:
        """For each variant, the reason why its kernel refuses it, or None."""
        reasons: dict[str, list[str | None]] = {}
        for source in sorted(self._judging):
            reasons[source] = self._judged(source, [v for v in variants if v.source == source])
        left = {source: iter(rows) for source, rows in reasons.items()}
        return [next(left[v.source]) if v.source in left else None for v in variants]

    def _judged(self, source: str, variants: list[Variant]) -> list[str | None]:
        if not variants:
            return []
        rows = [[v.op, {n: to_json(c) for n, c in v.config.items()}, str(v.target)] for v in variants]
        key = self._keys[source] and memo_key(self._keys[source], rows)
        noted = self._notes.get("judgements", key) if self._notes and key else None
        if isinstance(noted, list) and len(noted) == len(rows) and all(isinstance(r, (str, type(None))) for r in noted):
            return noted
        answer = list(self._ask().judge(variants))
        # A refusal may come from what is installed, which the key does not count: it is asked for again next time.
        if self._notes and key and not any(answer):
            self._notes.put("judgements", key, answer)
        return answer

    def _key(self, asked: Asked) -> str:
        """The key of a description; empty for a kernel that cannot be found: the child says why."""
        if self._notes is None:
            return ""
        op, source = asked
        try:
            place = str(FunctionRef.parse(source) if source else find(op or ""))
            return memo_key(op, place, self._sources.digest(place), str(self._target), self._reading())
        except (PrecastError, OSError):
            return ""

    def _reading(self) -> list[Any]:
        if not self._readers:
            versions = [version(name) for name in PACKAGES]
            self._readers = [versions, *(self._sources.digest(name) for name in (*_READERS, *adapter_sources()))]
        return self._readers

    def _noted(self, key: str) -> Description | None:
        noted = self._notes.get("kernels", key) if self._notes else None
        try:
            return None if noted is None else Description.parse(noted)
        except FormatError:
            return None

    def _ask(self) -> Describer:
        if self._child is None:
            self._child = self._stack.enter_context(describing(self._search, self._target, limit=self._limit))
        return self._child


def _to_json(description: Description) -> dict[str, Any]:
    return {
        **{name: list(v) if isinstance(v, tuple) else v for name, v in asdict(description).items()},
        "keys": [key_to_json(key) for key in description.keys],
    }
