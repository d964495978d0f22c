"""Rows of measurements: several tables as one, as a merged cache and a part of one have them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from precast.loader.contract.format.tuning.measured import Measured


def joined(tables: Iterable[Iterable[Measured]], keys: Collection[str]) -> tuple[Measured, ...]:
    """Several tables as one, for the artifacts with these keys. If two have a time of the same artifact, problem and
    GPU, the lesser stays, since a disturbance only adds time; so the order of the tables does not matter."""
    rows: dict[tuple[str, str, bytes], Measured] = {}
    for row in (row for table in tables for row in table):
        old = rows[row.place].times if row.place in rows else {}
        new = {k: min(t, old.get(k, t)) for k, t in row.times.items() if k in keys}
        if old or new:
            tilings = {**(rows[row.place].tilings if row.place in rows else {}), **row.tilings}
            times = {**old, **new}
            rows[row.place] = replace(row, times=times, tilings={k: t for k, t in tilings.items() if k in times})
    return tuple(rows[identity] for identity in sorted(rows))
