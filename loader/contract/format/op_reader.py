"""The reader of an op's file, which parses each artifact at its first use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
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
from precast.loader.contract.format.rows import Rows, split, split_tuning
from precast.loader.errors import FormatError
from precast.loader.locks import IMPORT_LOCK

if TYPE_CHECKING:
    from precast.loader.contract.format.tuning.measured import Measured
    from precast.loader.contract.format.tuning.table import Table


_FEW = 4096  # rows whose table takes some milliseconds, which a second lookup may take


class OpReader:
    """One op of a cache: ``op``, the ``keys`` of its config, ``doc``, and the ``rows`` of its artifacts.

    An op may have thousands of artifacts and a lookup needs a few, so artifacts and measurements are parsed and checked
    at their first use. Threads may share a reader: what two of them parse at the same time is equal.

    >>> index = OpIndex.of(op="scale", keys=(), doc="Multiply by a number.", artifacts=())
    >>> OpReader.decode(index.encode(), op="scale").index == index
    True
    """

    def __init__(
        self,
        *,
        op: str,
        keys: tuple[Key, ...],
        doc: str,
        rows: Rows,
        tables: Callable[[], tuple[Mapping[str, Any], ...]],
    ) -> None:
        self.op, self.keys, self.doc, self.rows = op, keys, doc, rows
        self._read_tables = tables
        self._artifacts: dict[int, Artifact] = {}
        self._positions: dict[Hashable, list[int]] | None = None
        self._looked_up = False
        self._tables: tuple[Table, ...] | None = None
        self._tuning: tuple[Measured, ...] | None = None

    @classmethod
    def decode(cls, data: bytes, *, op: str, path: str = "") -> OpReader:
        """Read the file of ``op``. Raises a FormatError for the file of another op; ``path`` is for later errors."""
        if len(data) > OP_LIMIT:
            raise FormatError(f"{len(data)} bytes of JSON, more than the {OP_LIMIT} this reader takes")
        parts = split(data, path)
        head, tuning = split_tuning(parts[0] if parts else data)
        root = fields.as_object(fields.read_json(head, limit=OP_LIMIT))
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
            tables=_tables(root) if tuning is None else lambda: _tables(_tuning_alone(tuning))(),
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

    def positions(
        self, bucket_of: Callable[[Any], Hashable], bucket: Hashable, sign: tuple[str, object] | None = None
    ) -> list[int]:
        """The positions of the rows in a bucket. ``bucket_of`` is called once for each row, with its config.

        All configs of the bucket have ``sign``, a key and its value, where it is not None. The first lookup searches
        for that: most processes look up one variant of an op, which is quicker without a table of all rows.
        """
        if self._positions is None and sign is not None and not self._looked_up and len(self.rows) <= _FEW:
            self._looked_up = True
            positions = self._searched(bucket_of, bucket, sign)
            if positions:
                return positions
        if self._positions is None:
            table: dict[Hashable, list[int]] = {}
            for position, config in enumerate(self.rows.configs):
                try:
                    table.setdefault(bucket_of(config), []).append(position)
                except (AttributeError, TypeError):  # no config at all, or one that holds objects
                    table.setdefault(None, []).append(position)
            self._positions = table
        return sorted(self._positions.get(bucket, []) + self._positions.get(None, []))

    def _searched(
        self, bucket_of: Callable[[Any], Hashable], bucket: Hashable, sign: tuple[str, object]
    ) -> list[int] | None:
        """The rows of a bucket, among those that have its sign; None where a table of all rows is the quicker way."""
        name, value = sign
        few = self.rows.having(name, value)
        try:
            if few is None:
                few = [position for position, config in enumerate(self.rows.configs) if config.get(name) == value]
            return [position for position in few if bucket_of(self.rows.config(position)) == bucket]
        except (AttributeError, TypeError):  # a config that is not one
            return None

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Every artifact, in the order of the file."""
        return tuple(map(self.artifact, range(len(self.rows))))

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables of measurements, whose rows are not checked yet. Raises a FormatError if one is not valid."""
        if self._tables is None:
            with IMPORT_LOCK:
                from precast.loader.contract.format.tuning.table import read_tables
            with self.reading_measurements():
                self._tables = read_tables(self._read_tables(), self.rows.keys)
        return self._tables

    @property
    def tuning(self) -> tuple[Measured, ...]:
        """All measurements. Raises a FormatError if one is not valid."""
        if self._tuning is None:
            tables = self.tables
            with IMPORT_LOCK:
                from precast.loader.contract.format.tuning.table import measurements
            with self.reading_measurements():
                self._tuning = measurements(tables)
        return self._tuning

    @contextmanager
    def reading_measurements(self) -> Iterator[None]:
        """Errors of the measurements name this file, and say what to do."""
        try:
            yield
        except FormatError as error:
            remedy = error.remedy or "build the cache again, or reinstall it"
            raise FormatError(error.message, error.place, remedy=remedy).within(f"ops/{self.op}.json:") from None

    @property
    def index(self) -> OpIndex:
        """All of the file as a value."""
        return OpIndex.of(op=self.op, keys=self.keys, doc=self.doc, artifacts=self.artifacts, tuning=self.tuning)


def _tables(root: fields.Object) -> Callable[[], tuple[Mapping[str, Any], ...]]:
    """The tables of a file that is parsed already."""
    tables = fields.items(root, "tuning", fields.as_object, most=TUNING_LIMIT, default=())
    return lambda: tables


def _tuning_alone(tuning: bytes) -> fields.Object:
    return {"tuning": fields.read_json(tuning, limit=OP_LIMIT)}


def _refuse_repeated_keys(rows: Rows) -> None:
    """A key identifies an artifact, so no two artifacts may have the same key."""
    keys = [key for key in rows.keys if isinstance(key, str)]
    if len(set(keys)) == len(keys):
        return
    seen: set[str] = set()
    for position, key in enumerate(rows.keys):
        if isinstance(key, str):
            if key in seen:
                raise FormatError("the key occurs twice", "key").within(position).within("artifacts")
            seen.add(key)
