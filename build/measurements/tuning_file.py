"""Tuning files: measured times of tuned candidates, by config and not by key, so that later builds can use them.

A file has the state of each GPU at its last measurement, and for each op a list of groups. A group is one meaning
config for one target, measured on one GPU: the candidates, which differ only in tuned keys, and a row for each problem
with a time for each candidate, in their order. A candidate has the digest of its device code, so that a build can
detect measurements of other code.

The same values give the same bytes: sorted, no paths, one line for a candidate and for a problem.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.artifact import parse_config
from precast.loader.contract.format.config import Config, canonical, to_json
from precast.loader.contract.format.index import TUNING_LIMIT, check_version
from precast.loader.contract.format.patterns import OP_NAME, Pattern
from precast.loader.contract.format.target import Capability, Target, parse_capability
from precast.loader.contract.format.tuning.measured import LONGEST, parse_problem
from precast.loader.contract.format.tuning.tiling import Tiling
from precast.loader.errors import FormatError

FORMAT = "precast-tuning"
LIMIT = 64 << 20
"""The most bytes of a file."""

_GPUS = 64
_GROUPS = 10_000
_CANDIDATES = 10_000
_CLOCK = 1_000_000  # MHz
GPU_NAME = Pattern(r"[ -~]{1,128}")
_DRIVER = Pattern(r"[ -~]{0,128}")
DATE = Pattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
CODE = Pattern(r"[0-9a-f]{16}")

Sizes = tuple[tuple[str, int], ...]
"""A problem as a value that can be a key: its sizes, sorted by name."""


def sizes_of(problem: Mapping[str, int]) -> Sizes:
    """A problem as a key.

    >>> sizes_of({"n": 8, "m": 1})
    (('m', 1), ('n', 8))
    """
    return tuple(sorted(problem.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The state of a GPU at its last measurement. The clocks, in MHz, were read under load; 0 means unknown."""

    name: str
    capability: Capability
    driver: str
    date: str
    sm_mhz: int = 0
    memory_mhz: int = 0

    def to_json(self) -> dict[str, Any]:
        clocks = {"sm_mhz": self.sm_mhz, "memory_mhz": self.memory_mhz}
        known_clocks = {name: mhz for name, mhz in clocks.items() if mhz}
        capability = str(self.capability)
        return {"name": self.name, "capability": capability, "driver": self.driver, "date": self.date, **known_clocks}

    @classmethod
    def parse(cls, value: object) -> Gpu:
        names = ("name", "capability", "driver", "date", "sm_mhz", "memory_mhz")
        data = fields.known(fields.as_object(value), names)
        return cls(
            name=fields.matching(data, "name", GPU_NAME, "the name of a GPU"),
            capability=fields.parsed(data, "capability", lambda v: parse_capability(fields.text(v))),
            driver=fields.matching(data, "driver", _DRIVER, "the version of a driver"),
            date=fields.matching(data, "date", DATE, "a date like 2026-01-31T12:00:00Z"),
            sm_mhz=fields.count(data, "sm_mhz", most=_CLOCK, default=0),
            memory_mhz=fields.count(data, "memory_mhz", most=_CLOCK, default=0),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A tuned config: its measured device code, the date of the last measurement, and its microseconds by problem.

    ``tiling`` is its tiling on that GPU, if its author declares it.
    """

    tuned: Config
    code: str
    date: str
    times: Mapping[Sizes, float] = field(default_factory=dict)
    tiling: Tiling | None = None

    @property
    def identity(self) -> bytes:
        """The identity in a group; candidates are sorted by it."""
        return canonical(config_json(self.tuned))


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Candidates that compute the same, measured on one GPU: those of one meaning config, for one target."""

    op: str
    config: Config
    target: Target
    gpu: str
    candidates: tuple[Candidate, ...]

    @property
    def identity(self) -> bytes:
        """The identity in a file; the groups of an op are sorted by it."""
        return canonical([self.op, config_json(self.config), str(self.target), self.gpu])

    @property
    def problems(self) -> tuple[Sizes, ...]:
        """The problems that any candidate has a time for, sorted."""
        return tuple(sorted({sizes for candidate in self.candidates for sizes in candidate.times}))


@dataclass(frozen=True, slots=True)
class TuningFile:
    """The content of a tuning file, or of several files joined."""

    gpus: tuple[Gpu, ...] = ()
    groups: tuple[Group, ...] = ()

    @property
    def count(self) -> int:
        """The number of measured times."""
        return sum(len(candidate.times) for group in self.groups for candidate in group.candidates)

    def encode(self) -> bytes:
        """The bytes of the file.

        >>> print(TuningFile().encode().decode(), end="")
        {
         "format": "precast-tuning",
         "version": 1,
         "gpus": [],
         "ops": {}
        }
        """
        gpus = [_line(gpu.to_json()) for gpu in sorted(self.gpus, key=lambda g: g.name)]
        ops: dict[str, list[Group]] = {}
        for group in sorted(self.groups, key=lambda g: g.identity):
            ops.setdefault(group.op, []).append(group)
        parts = [f"  {_line(op)}: {_list([_group(g) for g in ops[op]], 2)}" for op in sorted(ops)]
        listed = "{\n" + ",\n".join(parts) + "\n }" if parts else "{}"
        head = f'{{\n "format": {_line(FORMAT)},\n "version": 1,\n "gpus": {_list(gpus, 1)},\n'
        return f'{head} "ops": {listed}\n}}\n'.encode()

    @classmethod
    def decode(cls, data: bytes) -> TuningFile:
        """Read and check such a file."""
        root = fields.as_object(fields.read_json(data, limit=LIMIT))
        check_version(root, FORMAT)
        fields.known(root, ("format", "version", "gpus", "ops"))
        gpus = fields.items(root, "gpus", Gpu.parse, most=_GPUS)
        names = {gpu.name for gpu in gpus}
        if len(names) < len(gpus):
            raise FormatError("a GPU occurs twice", "gpus")
        groups: list[Group] = []
        for op in fields.parsed(root, "ops", fields.as_object):
            if not OP_NAME.admits(op):
                raise FormatError("not the name of an op", f"ops.{op[:80]}")
            groups += fields.parsed(root, "ops", lambda ops, op=op: _groups(ops, op, names))  # type: ignore[misc]
        return cls(tuple(sorted(gpus, key=lambda g: g.name)), tuple(sorted(groups, key=lambda g: g.identity)))


def is_tuning_file(data: bytes) -> bool:
    """Whether bytes are such a file, and not one from ``precast bench``.

    >>> is_tuning_file(TuningFile().encode())
    True
    """
    return f'"format": "{FORMAT}"'.encode() in data[:200]


def config_json(config: Config) -> dict[str, Any]:
    """A config as JSON has it."""
    return {name: to_json(value) for name, value in config.items()}


def _groups(ops: fields.Object, op: str, gpus: set[str]) -> tuple[Group, ...]:
    groups = fields.items(ops, op, lambda value: _parse_group(op, value, gpus), most=_GROUPS)
    if len({group.identity for group in groups}) < len(groups):
        raise FormatError("a config occurs twice for one target and GPU", op)
    return groups


def _parse_group(op: str, value: object, gpus: set[str]) -> Group:
    data = fields.known(fields.as_object(value), ("gpu", "target", "config", "candidates", "rows"))
    config = parse_config(data)
    candidates = fields.items(data, "candidates", lambda v: _parse_candidate(v, config), most=_CANDIDATES)
    if len({candidate.identity for candidate in candidates}) < len(candidates):
        raise FormatError("a candidate occurs twice", "candidates")
    gpu = fields.get(data, "gpu", str)
    if gpu not in gpus:
        raise FormatError(f"{gpu[:80]!r} is not listed under 'gpus'", "gpu")
    tables: list[dict[Sizes, float]] = [{} for _ in candidates]
    seen: set[Sizes] = set()
    rows = fields.items(data, "rows", lambda v: _parse_row(v, len(candidates)), most=TUNING_LIMIT)
    for number, (sizes, times) in enumerate(rows):
        if sizes in seen:
            raise FormatError("a problem occurs twice", f"rows[{number}]")
        seen.add(sizes)
        for table, time in zip(tables, times, strict=True):
            if time is not None:
                table[sizes] = time
    filled = (replace(candidate, times=table) for candidate, table in zip(candidates, tables, strict=True))
    return Group(
        op=op,
        config=config,
        target=fields.parsed(data, "target", lambda v: Target.parse(fields.text(v))),
        gpu=gpu,
        candidates=tuple(sorted(filled, key=lambda c: c.identity)),
    )


def _parse_candidate(value: object, config: Config) -> Candidate:
    data = fields.known(fields.as_object(value), ("code", "date", "tiling", "tuned"))
    tuned = parse_config({"config": fields.parsed(data, "tuned", fields.as_object)})
    for name in tuned:
        if name in config:
            raise FormatError("this key is in 'config' as well", f"tuned.{name}")
    return Candidate(
        tuned=tuned,
        code=fields.matching(data, "code", CODE, "the digest of device code"),
        date=fields.matching(data, "date", DATE, "a date like 2026-01-31T12:00:00Z"),
        tiling=fields.parsed(data, "tiling", Tiling.parse, None),
    )


def _parse_row(value: object, candidates: int) -> tuple[Sizes, tuple[float | None, ...]]:
    data = fields.known(fields.as_object(value), ("problem", "times"))
    times = fields.items(data, "times", _time, most=_CANDIDATES)
    if len(times) != candidates:
        raise FormatError(f"{len(times)} times for {candidates} candidates", "times")
    if all(time is None for time in times):
        raise FormatError("no candidate has a time: leave the problem out", "times")
    return sizes_of(fields.parsed(data, "problem", parse_problem)), times


def _time(value: object) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value <= LONGEST:  # type: ignore[operator]
        raise FormatError("expected a positive number of microseconds, or null")
    return float(value)  # type: ignore[arg-type]


def _group(group: Group) -> str:
    """The text of one group: its facts and each candidate and problem on a line."""
    ordered = sorted(group.candidates, key=lambda c: c.identity)
    candidates = [_line(_candidate(candidate)) for candidate in ordered]
    rows = [
        _line({"problem": dict(sizes), "times": [candidate.times.get(sizes) for candidate in ordered]})
        for sizes in group.problems
    ]
    facts = {"gpu": group.gpu, "target": str(group.target), "config": config_json(group.config)}
    lines = [f"    {_line(name)}: {_line(value)}" for name, value in facts.items()]
    lines += [f'    "candidates": {_list(candidates, 4)}', f'    "rows": {_list(rows, 4)}']
    return "{\n" + ",\n".join(lines) + "\n   }"


def _candidate(candidate: Candidate) -> dict[str, Any]:
    tiling = {"tiling": candidate.tiling.to_json()} if candidate.tiling else {}
    return {"code": candidate.code, "date": candidate.date, "tuned": config_json(candidate.tuned), **tiling}


def _list(items: list[str], indent: int) -> str:
    return "[\n" + ",\n".join(_indented(items, indent + 1)) + f"\n{' ' * indent}]" if items else "[]"


def _indented(items: list[str], indent: int) -> Iterator[str]:
    return (f"{' ' * indent}{item}" for item in items)


def _line(value: Any) -> str:
    """JSON on one line, with sorted keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False)
