"""The reader of an op's file, which parses each artifact at its first use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.index import (
    MOST_ARTIFACTS,
    OP_FORMAT,
    OP_LIMIT,
    TUNING_LIMIT,
    OpIndex,
    check_version,
    parse_key,
)
from precast.loader.contract.format.rows import Rows, split
from precast.loader.errors import FormatError
from precast.loader.import_lock import IMPORT_LOCK

if TYPE_CHECKING:
    from precast.loader.contract.format.tuning import Measured


class OpReader:
    """One op of a cache: ``op``, the ``keys`` of its config, ``doc``, and the ``rows`` of its artifacts.

    An op may have thousands of artifacts and a lookup needs a few, so artifacts and measurements are parsed and checked
    at their first use. Threads may share a reader: what two of them parse at the same time is equal.

    >>> index = OpIndex.of(op="scale", keys=(), doc="Multiply by a number.", artifacts=())
    >>> OpReader.decode(index.encode(), op="scale").index == index
    True
    """

    def __init__(
        self, *, op: str, keys: tuple[Key, ...], doc: str, rows: Rows, tables: tuple[Mapping[str, Any], ...]
    ) -> None:
        self.op, self.keys, self.doc, self.rows = op, keys, doc, rows
        self._tables = tables
        self._artifacts: dict[int, Artifact] = {}
        self._positions: dict[Hashable, list[int]] | None = None
        self._tuning: tuple[Measured, ...] | None = None

    @classmethod
    def decode(cls, data: bytes, *, op: str, path: str = "") -> OpReader:
        """Read the file of ``op``. Raises a FormatError for the file of another op; ``path`` is for later errors."""
        text = fields.read_text(data, limit=OP_LIMIT)
        parts = split(text, path)
        root = fields.as_object(fields.parse_json(parts[0] if parts else text))
        check_version(root, OP_FORMAT)
        fields.known(root, ("format", "version", "op", "doc", "keys", "artifacts", "tuning"))
        if fields.get(root, "op", str) != op:
            raise FormatError(f"this is not the file of {op!r}", "op")
        rows = parts[1] if parts else Rows.of(fields.items(root, "artifacts", fields.as_object, most=MOST_ARTIFACTS))
        _refuse_repeated_keys(rows)
        return cls(
            op=op,
            keys=fields.items(root, "keys", parse_key, most=256),
            doc=fields.get(root, "doc", str, ""),
            rows=rows,
            tables=fields.items(root, "tuning", fields.as_object, most=TUNING_LIMIT, default=()),
        )

    def artifact(self, position: int) -> Artifact:
        """The artifact at a position. Raises a FormatError if its row is not valid."""
        artifact = self._artifacts.get(position)
        if artifact is None:
            try:
                artifact = Artifact.parse(self.rows[position])
            except FormatError as error:
                raise error.within(position).within("artifacts").within(f"ops/{self.op}.json:") from None
            self._artifacts[position] = artifact
        return artifact

    def positions(self, bucket_of: Callable[[Any], Hashable], bucket: Hashable) -> list[int]:
        """The positions of the rows in a bucket. ``bucket_of`` is called once for each row, with its config."""
        if self._positions is None:
            table: dict[Hashable, list[int]] = {}
            for position, config in enumerate(self.rows.configs):
                try:
                    table.setdefault(bucket_of(config), []).append(position)
                except (AttributeError, TypeError):  # no config at all, or one that holds objects
                    table.setdefault(None, []).append(position)
            self._positions = table
        return sorted(self._positions.get(bucket, []) + self._positions.get(None, []))

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Every artifact, in the order of the file."""
        return tuple(map(self.artifact, range(len(self.rows))))

    @property
    def tuning(self) -> tuple[Measured, ...]:
        """The measurements. Raises a FormatError if one is not valid."""
        if self._tuning is None:
            with IMPORT_LOCK:
                from precast.loader.contract.format.tuning import parse_tables
            try:
                self._tuning = parse_tables(self._tables, self.rows.keys)
            except FormatError as error:
                raise error.within(f"ops/{self.op}.json:") from None
        return self._tuning

    @property
    def index(self) -> OpIndex:
        """All of the file as a value."""
        return OpIndex.of(op=self.op, keys=self.keys, doc=self.doc, artifacts=self.artifacts, tuning=self.tuning)


def _refuse_repeated_keys(rows: Rows) -> None:
    """A key identifies an artifact, so no two artifacts may have the same key."""
    seen: set[str] = set()
    for position, key in enumerate(rows.keys):
        if isinstance(key, str):
            if key in seen:
                raise FormatError("the key occurs twice", "key").within(position).within("artifacts")
            seen.add(key)
