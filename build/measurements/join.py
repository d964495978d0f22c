"""Joining tuning files of several GPUs and days. Their order does not matter.

For each candidate of a group, the device code of the latest measurement counts, and for equal dates that with the
greater digest. Times of other code are dropped. If the same code has several times for one problem, the least is kept:
disturbances only add time.

All files are joined at once. Joining them in pairs gives the same result, unless a candidate returned to earlier code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from precast.build.measurements.tuning_file import Candidate, Gpu, Group, Sizes, TuningFile
from precast.loader.contract.format.config import canonical
from precast.loader.contract.format.tuning.measured import Measured


def join(files: Iterable[TuningFile]) -> TuningFile:
    """Some files as one.

    >>> join([]) == TuningFile()
    True
    """
    gpus: dict[str, list[Gpu]] = {}
    groups: dict[bytes, list[Group]] = {}
    for file in files:
        for gpu in file.gpus:
            gpus.setdefault(gpu.name, []).append(gpu)
        for group in file.groups:
            groups.setdefault(group.identity, []).append(group)
    return TuningFile(
        tuple(max(gpus[name], key=_state) for name in sorted(gpus)),
        tuple(_joined(groups[identity]) for identity in sorted(groups)),
    )


def _state(gpu: Gpu) -> tuple[str, bytes]:
    return gpu.date, canonical(gpu.to_json())


def _joined(groups: Sequence[Group]) -> Group:
    candidates: dict[bytes, list[Candidate]] = {}
    for candidate in (candidate for group in groups for candidate in group.candidates):
        candidates.setdefault(candidate.identity, []).append(candidate)
    return replace(groups[0], candidates=tuple(_newest(candidates[identity]) for identity in sorted(candidates)))


def _age(candidate: Candidate) -> tuple[str, str, bytes]:
    return candidate.date, candidate.code, canonical(candidate.tiling.to_json() if candidate.tiling else None)


def _newest(measured: Sequence[Candidate]) -> Candidate:
    """One candidate of several files: the code that was measured last, with its least times."""
    newest = max(measured, key=_age)
    times: dict[Sizes, float] = {}
    for candidate in measured:
        if candidate.code == newest.code:
            times.update({sizes: min(time, times.get(sizes, time)) for sizes, time in candidate.times.items()})
    return replace(newest, times=times)


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
