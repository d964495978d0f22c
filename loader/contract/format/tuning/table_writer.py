"""Writing tables: measurements as the file of an op holds them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from precast.loader.contract.format.target import Capability
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.table import BETWEEN, Table
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.contract.values import replace


def tables_of(measured: Iterable[Measured], meanings: Mapping[str, bytes]) -> tuple[Table, ...]:
    """Tables, each of one GPU, the same axes, and variants of one meaning, unless tilings of a variant differ.

    Parameters
    ----------
    measured
        The measurements.
    meanings
        What artifacts that differ in tuned keys only have in common, by their keys.
    """
    groups: dict[tuple[Capability, str, tuple[str, ...], bytes], list[_Columns]] = {}
    for row in sorted(measured, key=lambda m: m.place):
        for meaning, part in _parts(row, meanings):
            columns = groups.setdefault((row.capability, row.gpu, tuple(sorted(row.problem)), meaning), [])
            fitting = next((table for table in columns if table.fits(part)), None)
            if fitting is None:
                fitting = _Columns()
                columns.append(fitting)
            fitting.add(part)
    return tuple(
        columns.table(capability, gpu, axes)
        for (capability, gpu, axes, _), tables in sorted(groups.items(), key=lambda item: item[0])
        for columns in tables
    )


def _parts(row: Measured, meanings: Mapping[str, bytes]) -> Iterator[tuple[bytes, Measured]]:
    """A row by the meanings of its variants."""
    keys: dict[bytes, list[str]] = {}
    for key in row.times:
        keys.setdefault(meanings.get(key, b""), []).append(key)
    for meaning, some in keys.items():
        tilings = {key: row.tilings[key] for key in some if key in row.tilings}
        yield meaning, replace(row, times={key: row.times[key] for key in some}, tilings=tilings)


class _Columns:
    """The rows of a table, and the tiling of each of its variants, or None."""

    def __init__(self) -> None:
        self.rows: list[Measured] = []
        self.tilings: dict[str, Tiling | None] = {}

    def fits(self, row: Measured) -> bool:
        """Whether no variant of a row has another tiling here."""
        return all(self.tilings.get(key, row.tilings.get(key)) == row.tilings.get(key) for key in row.times)

    def add(self, row: Measured) -> None:
        self.rows.append(row)
        self.tilings.update((key, row.tilings.get(key)) for key in row.times)

    def table(self, capability: Capability, gpu: str, axes: tuple[str, ...]) -> Table:
        keys = tuple(sorted(self.tilings))
        tilings = {key: tiling for key, tiling in self.tilings.items() if tiling is not None}
        rows = tuple(f"{_sizes(row, axes)}{BETWEEN}{_times(row, keys)}" for row in self.rows)
        return Table(gpu=gpu, capability=capability, axes=axes, keys=keys, tilings=tilings, rows=rows)


def _sizes(row: Measured, axes: Iterable[str]) -> str:
    return ",".join(str(row.problem[axis]) for axis in axes)


def _times(row: Measured, keys: Iterable[str]) -> str:
    return ",".join(f"{row.times[key]!r}".removesuffix(".0") if key in row.times else "" for key in keys)
