"""What a program asked for, as a manifest to build and as a grid of problems to measure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from precast.loader.contract.diagnostics.requests import (
    FILE_LIMIT,
    ManifestEntry,
    RequestLines,
    RequestRecord,
    combined,
    read_requests,
)
from precast.loader.contract.format.config import canonical, config_text, value_text
from precast.loader.contract.values import replace
from precast.loader.errors import ConfigError, FormatError

ONLY = ("missing", "used")


@dataclass(slots=True)
class Entry:
    """One entry of the manifest: what to build, for which targets, and how often it was asked for."""

    wanted: ManifestEntry
    targets: set[str] = field(default_factory=set)
    used: int = 0
    missing: int = 0


def read_request_files(paths: Iterable[Path]) -> tuple[tuple[RequestRecord, ...], tuple[str, ...]]:
    """The requests of several files, each once with its counts added up; and a note for each file that was cut."""
    requests: list[RequestRecord] = []
    notes = []
    for path in paths:
        found = _read(path)
        requests += found.requests
        if found.cut:
            notes.append(f"{path}: the last line is not complete, and was left out: its process was ended")
    return combined(requests), tuple(notes)


def _read(path: Path) -> RequestLines:
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): name a file that PRECAST_REQUESTS named"
        ) from None
    if len(data) > FILE_LIMIT:
        raise ConfigError(f"{path} has more than {FILE_LIMIT} bytes: this is no file of requests")
    try:
        return read_requests(data)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None


def entries_of(
    requests: Iterable[RequestRecord], *, only: str | None = None, targets: Sequence[str] = ()
) -> list[Entry]:
    """The entries that build what was asked for, in one order.

    ``only`` leaves in what was missing, or what was found. ``targets`` are built for in place of those asked for.
    """
    table: dict[bytes, Entry] = {}
    for one in requests:
        if one.wanted is None or (only == "missing" and one.found) or (only == "used" and one.missing):
            continue
        wanted = replace(one.wanted, target=None)
        entry = table.setdefault(canonical(wanted.to_json()), Entry(wanted))
        entry.targets |= set(targets) or ({one.wanted.target} if one.wanted.target else set())
        if one.found:
            entry.used += one.count
        else:
            entry.missing += one.count
    return [table[identity] for identity in sorted(table, key=lambda identity: (table[identity].wanted.op, identity))]


def manifest_of(
    requests: Sequence[RequestRecord], *, name: str = "requested", only: str | None = None, targets: Sequence[str] = ()
) -> str:
    """The text of a manifest that builds what was asked for; comments say how often, and what no entry would help.

    >>> wanted = ManifestEntry(op="scale", config={"dtype": "float32"}, tuned={}, env={}, target="sm_90a")
    >>> one = RequestRecord(op="scale", config={}, missing="VariantNotFound: no variant fits", wanted=wanted, count=3)
    >>> print(manifest_of([one], name="mine"))
    version: 1
    name: mine
    kernels:
      # asked for 3 times, and missing
      - kernel: scale
        config:
          dtype: float32
        targets: [sm_90a]
    <BLANKLINE>
    """
    entries = entries_of(requests, only=only, targets=targets)
    if not entries:
        raise ConfigError("no request here names a kernel to build: look at what the program asked for")
    lines = ["version: 1", f"name: {name}", "kernels:"]
    for entry in entries:
        lines += _entry(entry)
    helpless = [one for one in requests if one.wanted is None]
    if helpless:
        lines.append("# no entry would help with these:")
        lines += [f"#   {one.op} {config_text(one.config)}: {one.missing} ({_times(one.count)})" for one in helpless]
    return "\n".join(lines) + "\n"


def _entry(entry: Entry) -> list[str]:
    wanted = entry.wanted
    if not entry.targets:
        raise ConfigError(f"no target is known for {wanted.op}, which was asked for without a device: give --target")
    lines = [f"  # {_counts(entry)}"]
    if wanted.function is None:
        lines.append(f"  - kernel: {wanted.op}")
    else:
        lines += [f"  - compile: {value_text(wanted.function)}", f"    op: {wanted.op}"]
    for name, values in (("config", wanted.config), ("tuned", wanted.tuned)):
        if values:
            lines += [f"    {name}:", *(f"      {key}: {_form(value)}" for key, value in sorted(values.items()))]
    if wanted.parts:
        lines.append(f"    parts: {value_text(wanted.parts)}")
    if wanted.env:
        lines.append(f"    env: {config_text(wanted.env)}")
    return [*lines, f"    targets: {value_text(sorted(entry.targets))}"]


def _form(value: Any) -> str:
    """A value as an entry has it. A list is one value here, and several in a manifest: so it stands in a list."""
    return value_text([value] if isinstance(value, (list, tuple)) else value)


def _counts(entry: Entry) -> str:
    if not entry.missing:
        return f"asked for {_times(entry.used)}"
    if not entry.used:
        return f"asked for {_times(entry.missing)}, and missing"
    return f"asked for {_times(entry.used + entry.missing)}, and missing {_times(entry.missing)} of these"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def grid_of(requests: Iterable[RequestRecord]) -> dict[str, list[tuple[dict[str, int], int]]]:
    """The distinct problems of each op with their counts, the most frequent first.

    >>> one = RequestRecord(op="gemm", config={}, problem={"m": 8}, missing="none", count=3)
    >>> grid_of([one, replace(one, config={"a": 1}, count=4)])
    {'gemm': [({'m': 8}, 7)]}
    """
    table: dict[str, dict[bytes, tuple[dict[str, int], int]]] = defaultdict(dict)
    for one in requests:
        if one.problem:
            key = canonical(dict(one.problem))
            before = table[one.op].get(key, ({}, 0))[1]
            table[one.op][key] = (dict(one.problem), before + one.count)
    return {
        op: [problems[key] for key in sorted(problems, key=lambda key: (-problems[key][1], key))]
        for op, problems in sorted(table.items())
    }


def grid_text(grid: dict[str, list[tuple[dict[str, int], int]]]) -> str:
    """A grid as YAML, with the options of ``precast bench`` that measure it.

    >>> print(grid_text({"gemm": [({"m": 8, "n": 64}, 7)]}))
    # precast bench CACHE -o times.json --op gemm --problem m=8,n=64
    problems:
      gemm:
        - {m: 8, n: 64}  # asked for 7 times
    """
    if not grid:
        return "# no request named a problem\nproblems: {}"
    head = []
    for op, problems in grid.items():
        options = " ".join(f"--problem {_option(problem)}" for problem, _ in problems)
        head.append(f"# precast bench CACHE -o times.json --op {op} {options}")
    lines = ["problems:"]
    for op, problems in grid.items():
        lines.append(f"  {op}:")
        lines += [f"    - {config_text(problem)}  # asked for {_times(count)}" for problem, count in problems]
    return "\n".join([*head, *lines])


def _option(problem: dict[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in problem.items())
