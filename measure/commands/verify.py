"""Launch every variant of a cache on this GPU in many ways, and compare the results with a reference.

With --emulate no GPU is needed: each kernel's host code is called, and its PTX is run by an interpreter, which also
finds races, hangs and accesses out of bounds. Variants of all targets are emulated, with their smaller problems.

Exit status 1 means that a variant is wrong, or that none could be verified. Variants are run in a separate process: one
that crashes or hangs counts as wrong, and the others continue. The smallest failing case is printed with the command
that repeats it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import check_output_file, count, print_message
from precast.cli.shared.progress import Progress
from precast.cli.shared.project import cache_or_project, store_folder
from precast.measure.commands.shared import selection
from precast.measure.commands.shared.project_modules import import_from_project
from precast.measure.commands.shared.values import check_key_prefix, problem_sizes
from precast.measure.commands.shared.verify_results import Run, print_verified

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache
    from precast.measure.verification.emulations import EmulationOptions
    from precast.measure.verification.verifier import Options, Verified


class Sanitizer(str, Enum):
    """The tools of ``compute-sanitizer`` that a launch runs under."""

    memcheck = "memcheck"
    racecheck = "racecheck"
    synccheck = "synccheck"


EXAMPLES = (
    "precast verify cache",
    "precast verify cache --op rmsnorm --record --junit report.xml",
    "precast verify cache --sanitizer racecheck",
)


def command(
    cache: options.CacheOrProject = None,
    op: selection.Op = None,
    key: selection.KeyPrefix = "",
    target: options.Target = None,
    problem: Annotated[
        str, typer.Option("--problem", help="Launch this problem only, such as n=5.", metavar="SIZES")
    ] = "",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="The seed of the random inputs, below 2**63.", metavar="N")
    ] = 0,
    small: Annotated[bool, typer.Option("--small", help="Launch only problems of at most 2**20 elements.")] = False,
    emulate: Annotated[bool, typer.Option("--emulate", help="Emulate the kernels, without a GPU.")] = False,
    seeds: Annotated[
        int,
        typer.Option(
            "--seeds", min=0, max=1000, help="Emulate each problem in so many random orders, too.", metavar="N"
        ),
    ] = 1,
    most: Annotated[
        int,
        typer.Option("--most", min=1, help="Emulate problems of at most this many elements.", metavar="ELEMENTS"),
    ] = 1 << 20,
    store: options.Store = None,
    timeout: options.Timeout = 1200.0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=64, help="Variants to verify at once, on one GPU.", metavar="N")
    ] = 1,
    sanitizer: Annotated[
        Sanitizer | None,
        typer.Option(
            "--sanitizer",
            help="Launch small problems under this tool of compute-sanitizer: memcheck, racecheck or synccheck.",
            metavar="TOOL",
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", help="Write a report in JUnit's XML format.", metavar="FILE")
    ] = None,
    record: Annotated[bool, typer.Option("--record", help="Write the evidence into the cache.")] = False,
    known_cache: Annotated[
        Path | None,
        typer.Option("--known", help="Skip variants that have evidence in this cache, and copy it.", metavar="CACHE"),
    ] = None,
    as_json: options.Json = False,
) -> None:
    from precast.loader.resolve.cache import Cache
    from precast.measure.checks.scenarios import SMALL
    from precast.measure.launching.cases import ops_of
    from precast.measure.verification.emulations import MOST, EmulationOptions, schedules
    from precast.measure.verification.verifier import Options

    _check_options(seed, key, known_cache, junit, whole=not (problem or small or sanitizer), record=record)
    if not emulate and (seeds != 1 or most != MOST or target):
        raise typer.BadParameter("--seeds, --most and --target are for kernels that are emulated: add --emulate")
    if emulate and sanitizer:
        raise typer.BadParameter("--sanitizer needs a GPU: leave out --emulate, which finds the same errors")
    path = cache_or_project(cache)
    import_from_project(path)
    opened = Cache(path)
    ops = ops_of(opened, op or ())
    if sanitizer is not None:
        _run_sanitizer(sanitizer.value, sys.argv[1:], opened, ops)
        return
    how = Options(seed=seed, problem=problem_sizes(problem) if problem else None, most=SMALL if small else None)
    earlier = Cache(known_cache) if known_cache else None
    try:
        if emulate:
            way = EmulationOptions(schedules=schedules(seeds), most=most)
            run, results = _emulated(opened, ops, key, how, way, earlier, store, target or (), timeout, jobs)
        else:
            run, results = _launched(opened, ops, key, how, earlier, timeout, jobs)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no evidence was written") from None
    print_verified(opened, results, run, junit=junit, record=record, as_json=as_json)


def _check_options(
    seed: int, key: str, known_cache: Path | None, junit: Path | None, *, whole: bool, record: bool
) -> None:
    if seed >= 1 << 63:
        raise typer.BadParameter(f"--seed {seed} is too large: torch takes less than 2**63")
    check_key_prefix(key)
    for option, value in (("--record", record), ("--known", known_cache)):
        if value and not whole:
            raise typer.BadParameter(f"{option} needs all problems: leave out --problem, --small and --sanitizer")
    check_output_file("--junit", junit)


def without_sanitizer(words: list[str]) -> list[str]:
    """The words of a command line without ``--sanitizer``, and with small problems only.

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


def _run_sanitizer(tool: str, words: list[str], cache: Cache, ops: tuple[str, ...]) -> None:
    """Run this command line under a tool that checks the kernels of some ops, and exit with its status."""
    from precast.measure.launching.cases import launchable
    from precast.measure.verification.sanitizer import FOUND, common_prefix, run

    kernels = [part.kernel for _, artifact in launchable(cache, ops) for part in artifact.resources]
    status = run(tool, [sys.executable, "-m", "precast.cli.main", *without_sanitizer(words)], common_prefix(kernels))
    if status == FOUND:
        print_message(f"error: {tool} reported the errors above: correct the kernels that it names")
    if status:
        raise typer.Exit(1)


def _launched(
    cache: Cache, ops: tuple[str, ...], key: str, how: Options, before: Cache | None, seconds: float, jobs: int
) -> tuple[Run, list[Verified]]:
    """Verify on this machine's GPU."""
    from precast.loader.errors import NoCudaDevice
    from precast.loader.resolve.evidence import CHECK
    from precast.measure.launching.cases import cases, this_device
    from precast.measure.on_gpu.launches import Launches
    from precast.measure.verification.evidence import EarlierEvidence, where_and_when
    from precast.measure.verification.verifier import verify_each

    try:
        device = this_device()
    except NoCudaDevice as error:
        raise NoCudaDevice(f"{error}, or add --emulate, which needs no GPU") from None
    earlier = EarlierEvidence(before, {"check": CHECK, "gpu": device.name}) if before else None
    with Progress() as progress, ExitStack() as processes:
        progress.stage(f"opening the artifacts of {count(len(ops), 'op')}")
        chosen = [case for case in cases(cache, device, ops) if case.artifact.key.startswith(key)]
        _require(cache, key, chosen)
        progress.total = len(chosen)
        number = max(1, min(jobs, len(chosen)))
        launches = [processes.enter_context(Launches(cache.path, seconds)) for _ in range(number)]
        results = verify_each(chosen, how, launches, progress, earlier)
    facts = {"check": CHECK, **where_and_when(device, os.environ)}
    return Run(facts=facts, where=f"on {device.name}", seed=how.seed), results


def _emulated(
    cache: Cache,
    ops: tuple[str, ...],
    key: str,
    how: Options,
    way: EmulationOptions,
    before: Cache | None,
    store: Path | None,
    targets: Sequence[str],
    seconds: float,
    jobs: int,
) -> tuple[Run, list[Verified]]:
    """Verify without a GPU."""
    from precast.build.store.store import Store
    from precast.measure.launching.cases import selected
    from precast.measure.verification.emulations import Emulations, compile_emulator, emulation_facts, with_ptx
    from precast.measure.verification.evidence import EarlierEvidence
    from precast.measure.verification.verifier import verify_each

    kept = Store(store_folder(store))
    facts = emulation_facts(way, os.environ)
    earlier = EarlierEvidence(before, {n: v for n, v in facts.items() if n != "date"}) if before else None
    with Progress() as progress, ExitStack() as processes:
        progress.stage(f"reading the PTX of {count(len(ops), 'op')}")
        chosen = [case for case in selected(cache, ops, targets) if case.artifact.key.startswith(key)]
        _require(cache, key, chosen)
        chosen = with_ptx(cache, kept, chosen)
        progress.total = len(chosen)
        compile_emulator()  # before the first variant, whose checks would report its absence
        number = max(1, min(jobs, len(chosen)))
        emulations = [
            processes.enter_context(Emulations(cache, kept, seconds, way, beside=number)) for _ in range(number)
        ]
        results = verify_each(chosen, how, emulations, progress, earlier, share_gpu=False)
    words = ["--emulate", "--seeds", str(len(way.schedules))]
    return Run(facts=facts, where="by emulation", seed=how.seed, words=words), results


def _require(cache: Cache, key: str, chosen: Sequence[object]) -> None:
    from precast.loader.errors import ConfigError

    if key and not chosen:
        raise ConfigError(f"cache {cache.name!r} has no object whose key starts with {key}: see 'precast list'")
