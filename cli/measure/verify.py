"""Launch every variant of a cache on this GPU in many ways, and compare what it writes with its reference."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared.output import count, emit
from precast.cli.shared.progress import Progress
from precast.cli.shared.sizes import sizes

if TYPE_CHECKING:
    from precast.cli.measure.verified import Verified
    from precast.loader.resolve.cache import Cache

_KEY = re.compile(r"[0-9a-f]{1,64}", re.ASCII)


class Sanitizer(str, Enum):
    """The tools of ``compute-sanitizer`` that a launch runs under."""

    memcheck = "memcheck"
    racecheck = "racecheck"


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    op: Annotated[
        list[str] | None, typer.Option("--op", help="Verify this op only; may be repeated.", metavar="OP")
    ] = None,
    key: Annotated[
        str, typer.Option("--key", help="Verify the artifact whose key begins so.", metavar="KEY", show_default=False)
    ] = "",
    problem: Annotated[
        str, typer.Option("--problem", help="Launch this problem only, such as n=5.", metavar="SIZES")
    ] = "",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="The seed of the random inputs, below 2**63.", metavar="N")
    ] = 0,
    small: Annotated[bool, typer.Option("--small", help="Launch only problems of at most 2**20 elements.")] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds that all runs of one variant may take.", metavar="SEC")
    ] = 1200.0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=64, help="Variants verified at once, on one GPU.", metavar="N")
    ] = 1,
    sanitizer: Annotated[
        Sanitizer | None,
        typer.Option("--sanitizer", help="Launch small problems under this tool of compute-sanitizer."),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write a report in JUnit's XML.", metavar="FILE")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the evidence into the cache.")] = False,
    known: Annotated[
        Path | None,
        typer.Option(
            "--known", help="Launch nothing that this cache has evidence of; keep that evidence.", metavar="CACHE"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the evidence as JSON.")] = False,
) -> None:
    """Launch every variant of a cache on this GPU in many ways, and compare what it writes with its reference.

    Exit status 1 means that one is wrong, or that none could be verified. Variants are launched in a process of their
    own: one that faults or hangs is wrong, and ends no other. The smallest failing case is printed with
    the command that repeats it.
    """
    from precast.kernels.authoring.launching.cases import ops_of, this_device
    from precast.loader.resolve.cache import Cache

    if seed >= 1 << 63:
        raise typer.BadParameter(f"--seed {seed} is too large: torch takes less than 2**63")
    if key and not _KEY.fullmatch(key):
        raise typer.BadParameter(f"--key {key[:80]!r} is not the beginning of a key: write digits and letters a to f")
    if record and (problem or small or sanitizer):
        raise typer.BadParameter("--record keeps what all problems say: leave out --problem, --small and --sanitizer")
    if known is not None and (problem or small or sanitizer):
        raise typer.BadParameter("--known is about all problems: leave out --problem, --small and --sanitizer")
    if junit is not None and (junit.is_dir() or not junit.absolute().parent.is_dir()):
        raise typer.BadParameter(f"--junit {junit}: name a file in a folder that exists")
    only = sizes(problem) if problem else None
    opened = Cache(cache)
    before = Cache(known) if known is not None else None
    ops = ops_of(opened, op or ())
    if sanitizer is not None:
        _sanitized(sanitizer.value, sys.argv[1:], opened, ops)
        return
    try:
        this_device()
        found = _verify(opened, ops, key, before, only, seed, small, timeout, jobs)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no evidence was written") from None
    _tell(opened, found, seed, junit, record, as_json)


def without_sanitizer(words: list[str]) -> list[str]:
    """The words of a command line without the option, and with small problems only.

    >>> without_sanitizer(["verify", "cache", "--sanitizer", "memcheck", "--seed=3"])
    ['verify', 'cache', '--seed=3', '--small']
    """
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and word != "--sanitizer" and not word.startswith("--sanitizer="):
            kept.append(word)
        skip = word == "--sanitizer"
    return kept if "--small" in kept else [*kept, "--small"]


def _sanitized(tool: str, words: list[str], cache: Cache, ops: tuple[str, ...]) -> None:
    """Run this very command under a tool that watches the kernels of some ops, and exit as it does."""
    from precast.cli.measure.sanitizer import FOUND, run, watched
    from precast.kernels.authoring.launching.cases import launchable

    kernels = [part.kernel for _, artifact in launchable(cache, ops) for part in artifact.resources]
    status = run(tool, [sys.executable, "-m", "precast.cli.main", *without_sanitizer(words)], watched(kernels))
    if status == FOUND:
        print(f"error: {tool} found what is listed above: a launch is wrong", file=sys.stderr)
    if status:
        raise typer.Exit(1)


def _verify(
    cache: Cache,
    ops: tuple[str, ...],
    key: str,
    before: Cache | None,
    problem: Mapping[str, int] | None,
    seed: int,
    small: bool,
    seconds: float,
    jobs: int,
) -> list[Verified]:
    """What was found out of every artifact of some ops."""
    from precast.build.on_gpu.launches import Launches
    from precast.cli.measure.evidence import Known
    from precast.cli.measure.verified import Options, verify_each
    from precast.kernels.authoring.launching.cases import cases, this_device
    from precast.kernels.authoring.verification.scenarios import SMALL
    from precast.loader.errors import ConfigError

    with Progress() as progress:
        progress.stage(f"opening the artifacts of {count(len(ops), 'op')}")
        found = [case for case in cases(cache, this_device(), ops) if case.artifact.key.startswith(key)]
        if key and not found:
            raise ConfigError(f"cache {cache.name!r} has no object whose key begins with {key}: 'precast list' has all")
        progress.total = len(found)
        options = Options(seed=seed, problem=problem, most=SMALL if small else None)
        known = Known(before, this_device().name) if before else None
        with ExitStack() as processes:
            launches = [
                processes.enter_context(Launches(cache.path, seconds)) for _ in range(max(1, min(jobs, len(found))))
            ]
            return verify_each(found, options, launches, progress, known)


def _tell(cache: Cache, found: list[Verified], seed: int, junit: Path | None, record: bool, as_json: bool) -> None:
    """Write and print what was found out, and exit with status 1 unless all is well."""
    from precast.build.cache.annotate import add_evidence
    from precast.cli.measure.evidence import where_and_when
    from precast.cli.measure.verified import repeating, worst_of
    from precast.cli.shared.junit import report
    from precast.kernels.authoring.launching.cases import this_device
    from precast.loader.resolve.evidence import CHECK

    device = this_device()
    facts = where_and_when(device, os.environ)
    done = [one for one in found if not one.left_out]
    evidence: dict[str, dict[str, Any]] = {}
    for one in done:
        entry = one.known or {"check": CHECK, **facts, "seed": seed, **one.outcome}
        evidence.setdefault(one.op, {})[one.key] = dict(entry)
    if junit is not None:
        junit.write_bytes(report("precast verify", [one.case for one in found], {**facts, "seed": seed}))
    if record and done:
        add_evidence(cache, evidence)
    lines = [f"wrong: {one.name}: {text}" for one in done for text in one.outcome["failed"]]
    worst = worst_of(done)
    smallest = None
    if worst is not None:
        one, check = worst
        smallest = {
            "op": one.op,
            "key": one.key,
            "failure": str(check),
            "repeat": repeating(str(cache.path), *worst, seed),
        }
        lines += [f"smallest failing case: {one.name}: {check}", f"to repeat it: {smallest['repeat']}"]
    runs_left_out = Counter(text for one in done for text in one.outcome["left_out"])
    lines += [f"left out: {text} ({count(number, 'variant')})" for text, number in runs_left_out.items()]
    kept = sum(one.known is not None for one in done)
    verified = f"{count(len(done) - kept, 'variant')} verified on {device.name}"
    lines.append(f"{verified}, {f'{kept} verified before, ' if kept else ''}{len(found) - len(done)} left out")
    left_out = {one.key: one.left_out for one in found if one.left_out}
    emit({"evidence": evidence, "left_out": left_out, "smallest": smallest}, "\n".join(lines), as_json)
    if worst is not None or not done:
        raise typer.Exit(1)
