"""Fitting: selects the measurements of a tuning file for the artifacts of a cache, as rows of its index.

A candidate is identified by its op, target and full config: keys that the op has got since have their defaults.
Candidates that are not in the cache are left out, and so are rows without any candidate.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from precast.build.link.elf import embedded
from precast.build.measurements.join import join
from precast.build.measurements.tuning_file import CODE, Gpu, Group, Sizes, TuningFile, config_json
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import Key, canonical, complete
from precast.loader.contract.format.index import TUNING_LIMIT
from precast.loader.contract.format.tuning.measured import Measured
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.errors import ConfigError, FormatError


class Listed(NamedTuple):
    """The keys and artifacts of one op in a cache."""

    keys: tuple[Key, ...]
    artifacts: tuple[Artifact, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The rows of each op, and counts: of ``times``, of fitting ``candidates``, of those ``left_out`` because no
    artifact has their config, and of fitting ones that were measured with the device code of an ``earlier`` build."""

    rows: Mapping[str, tuple[Measured, ...]] = field(default_factory=dict)
    times: int = 0
    candidates: int = 0
    left_out: int = 0
    earlier: int = 0

    def to_json(self) -> dict[str, int]:
        """The counts."""
        names = ("times", "candidates", "left_out", "earlier")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        """The counts as text.

        >>> str(Fitted(times=12, candidates=3, left_out=1, earlier=2))
        '12 measured times of 3 variants; 2 of these were measured on an earlier build; 1 measured variant is not here'
        """
        notes = [f"{self.times} measured times of {self.candidates} variants"]
        notes += [f"{self.earlier} of these {_was(self.earlier)} measured on an earlier build"] if self.earlier else []
        if self.left_out:
            notes.append(f"{self.left_out} measured variant{' is' if self.left_out == 1 else 's are'} not here")
        return "; ".join(notes)


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def code_digest(library: bytes) -> str:
    """The digest of the device code in a library; of the whole library if no device code is found.

    It does not change with the host code or the runtime library.

    >>> len(code_digest(b"a library"))
    16
    """
    parts = embedded(library) or (library,)
    digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()[:16]
    assert CODE.admits(digest)
    return digest


def completed(file: TuningFile, keys: Mapping[str, tuple[Key, ...]]) -> TuningFile:
    """A file with the keys that ops have now: keys that an op has got since have their defaults.

    Configs that an op no longer accepts are not changed.
    """
    parts = [
        _completed(replace(group, candidates=(candidate,)), keys[group.op])
        for group in file.groups
        for candidate in group.candidates
        if group.op in keys
    ]
    others = tuple(group for group in file.groups if group.op not in keys)
    return join([TuningFile(file.gpus, others), *(TuningFile(file.gpus, (part,)) for part in parts)])


def _completed(group: Group, keys: tuple[Key, ...]) -> Group:
    """A group of one candidate."""
    (candidate,) = group.candidates
    try:
        config = complete(keys, {**group.config, **candidate.tuned}, op=group.op)
    except ConfigError:  # the op has lost a key, or a choice
        return group
    tuned = {key.name: config[key.name] for key in keys if key.tuned}
    meaning = {name: value for name, value in config.items() if name not in tuned}
    return replace(group, config=meaning, candidates=(replace(candidate, tuned=tuned),))


def fit(file: TuningFile, ops: Mapping[str, Listed], code: Callable[[Artifact], str] | None = None) -> Fitted:
    """The measurements of a file for these artifacts. With ``code``, which returns the digest of an artifact's device
    code, candidates that were measured with other code are counted."""
    file = completed(file, {op: listed.keys for op, listed in ops.items()})
    gpus = {gpu.name: gpu for gpu in file.gpus}
    tables: dict[str, dict[tuple[str, Sizes], dict[str, float]]] = {}
    tilings: dict[str, dict[tuple[str, str], Tiling]] = {}  # by op, then by GPU and artifact
    candidates = left_out = earlier = 0
    measured = {group.op for group in file.groups}
    by_config = {op: _by_config(listed.artifacts) for op, listed in ops.items() if op in measured}
    for group in file.groups:
        for candidate in group.candidates:
            config = config_json({**group.config, **candidate.tuned})
            artifacts = by_config.get(group.op, {}).get(_identity(str(group.target), config), ())
            if not artifacts:
                left_out += 1
                continue
            candidates += 1
            earlier += code is not None and all(code(artifact) != candidate.code for artifact in artifacts)
            if candidate.tiling is not None:
                known_tilings = tilings.setdefault(group.op, {})
                known_tilings.update({(group.gpu, artifact.key): candidate.tiling for artifact in artifacts})
            table = tables.setdefault(group.op, {})
            for sizes, time in candidate.times.items():
                table.setdefault((group.gpu, sizes), {}).update({a.key: time for a in artifacts})
    rows = {op: _rows(table, gpus, tilings.get(op, {})) for op, table in sorted(tables.items())}
    for op, op_rows in rows.items():
        if len(op_rows) > TUNING_LIMIT:
            raise FormatError(f"{op} has {len(op_rows)} measured problems, and a cache may have {TUNING_LIMIT}")
    times = sum(len(row.times) for op_rows in rows.values() for row in op_rows)
    return Fitted(rows=rows, times=times, candidates=candidates, left_out=left_out, earlier=earlier)


def _rows(
    table: Mapping[tuple[str, Sizes], dict[str, float]],
    gpus: Mapping[str, Gpu],
    tilings: Mapping[tuple[str, str], Tiling],
) -> tuple[Measured, ...]:
    rows = []
    for (gpu, sizes), times in table.items():
        problem = dict(sizes)
        row_tilings = {key: tilings[gpu, key] for key in times if (gpu, key) in tilings}
        row_tilings = {key: tiling for key, tiling in row_tilings.items() if tiling.cuts(problem)}
        capability = gpus[gpu].capability
        rows.append(Measured(gpu=gpu, capability=capability, problem=problem, times=times, tilings=row_tilings))
    return tuple(sorted(rows, key=lambda row: row.place))


def _by_config(artifacts: Iterable[Artifact]) -> dict[bytes, list[Artifact]]:
    """Artifacts that can be measured, by target and config: there may be one for each host and each GPU."""
    by_config: dict[bytes, list[Artifact]] = {}
    for artifact in artifacts:
        if artifact.kind == "object":
            by_config.setdefault(_identity(str(artifact.target), config_json(artifact.config)), []).append(artifact)
    return by_config


def _identity(target: str, config: Mapping[str, Any]) -> bytes:
    return canonical([target, dict(config)])
