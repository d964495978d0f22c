"""The requests of a program, as a manifest to build and as a grid of problems to measure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from precast.loader.contract.diagnostics.requests import ManifestEntry, RequestRecord
from precast.loader.contract.format.config import canonical, config_text, value_text
from precast.loader.contract.values import replace
from precast.loader.errors import ConfigError


@dataclass(slots=True)
class Entry:
    """One entry of the manifest: what to build, for which targets, and how often it was requested."""

    wanted: ManifestEntry  # words: allow
    targets: set[str] = field(default_factory=set)
    used: int = 0
    missing: int = 0


def entries_of(
    requests: Iterable[RequestRecord], *, only: str | None = None, targets: Sequence[str] = ()
) -> list[Entry]:
    """The entries that build the requested kernels, sorted.

    ``only`` keeps the requests that were missing, or those that were found. ``targets`` replace the requested ones.
    """
    table: dict[bytes, Entry] = {}
    for request in requests:
        if request.wanted is None or (only == "missing" and request.found) or (only == "used" and request.missing):
            continue
        variant = replace(request.wanted, target=None)
        entry = table.setdefault(canonical(variant.to_json()), Entry(variant))
        entry.targets |= set(targets) or ({request.wanted.target} if request.wanted.target else set())
        if request.found:
            entry.used += request.count
        else:
            entry.missing += request.count
    return [table[identity] for identity in sorted(table, key=lambda identity: (table[identity].wanted.op, identity))]


def manifest_of(
    requests: Sequence[RequestRecord], *, name: str = "requested", only: str | None = None, targets: Sequence[str] = ()
) -> str:
    """The text of a manifest that builds the requested kernels, with their counts and unbuildable requests as comments.

    >>> wanted = ManifestEntry(op="scale", config={"dtype": "float32"}, tuned={}, env={}, target="sm_90a")
    >>> one = RequestRecord(op="scale", config={}, missing="VariantNotFound: no variant fits", wanted=wanted, count=3)
    >>> print(manifest_of([one], name="mine"))
    version: 1
    name: mine
    kernels:
      # requested 3 times, missing
      - kernel: scale
        config:
          dtype: float32
        targets: [sm_90a]
    <BLANKLINE>
    """
    entries = entries_of(requests, only=only, targets=targets)
    if not entries:
        raise ConfigError("none of the requests names a kernel that can be built: check what the program requested")
    lines = ["version: 1", f"name: {name}", "kernels:"]
    for entry in entries:
        lines += _entry(entry)
    helpless = [request for request in requests if request.wanted is None]
    if helpless:
        lines.append("# no entry can build these requests:")
        lines += [
            f"#   {request.op} {config_text(request.config)}: {request.missing} ({_times(request.count)})"
            for request in helpless
        ]
    return "\n".join(lines) + "\n"


def _entry(entry: Entry) -> list[str]:
    variant = entry.wanted
    if not entry.targets:
        raise ConfigError(f"{variant.op} was requested without a device, so its target is unknown: give --target")
    lines = [f"  # {_counts(entry)}"]
    if variant.function is None:
        lines.append(f"  - kernel: {variant.op}")
    else:
        lines += [f"  - compile: {value_text(variant.function)}", f"    op: {variant.op}"]
    for name, values in (("config", variant.config), ("tuned", variant.tuned)):
        if values:
            lines += [f"    {name}:", *(f"      {key}: {_form(value)}" for key, value in sorted(values.items()))]
    if variant.parts:
        lines.append(f"    parts: {value_text(variant.parts)}")
    if variant.env:
        lines.append(f"    env: {config_text(variant.env)}")
    return [*lines, f"    targets: {value_text(sorted(entry.targets))}"]


def _form(value: Any) -> str:
    """A value as an entry has it. A manifest reads a list as several values, so a value that is a list is nested."""
    return value_text([value] if isinstance(value, (list, tuple)) else value)


def _counts(entry: Entry) -> str:
    if not entry.missing:
        return f"requested {_times(entry.used)}"
    if not entry.used:
        return f"requested {_times(entry.missing)}, missing"
    return f"requested {_times(entry.used + entry.missing)}, missing {_times(entry.missing)}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def grid_of(requests: Iterable[RequestRecord]) -> dict[str, list[tuple[dict[str, int], int]]]:
    """The distinct problems of each op with their counts, the most frequent first.

    >>> one = RequestRecord(op="gemm", config={}, problem={"m": 8}, missing="none", count=3)
    >>> grid_of([one, replace(one, config={"a": 1}, count=4)])
    {'gemm': [({'m': 8}, 7)]}
    """
    table: dict[str, dict[bytes, tuple[dict[str, int], int]]] = defaultdict(dict)
    for request in requests:
        if request.problem:
            key = canonical(dict(request.problem))
            before = table[request.op].get(key, ({}, 0))[1]
            table[request.op][key] = (dict(request.problem), before + request.count)
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
        - {m: 8, n: 64}  # requested 7 times
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
        lines += [f"    - {config_text(problem)}  # requested {_times(count)}" for problem, count in problems]
    return "\n".join([*head, *lines])


def _option(problem: dict[str, int]) -> str:
    return ",".join(f"{name}={size}" for name, size in problem.items())
