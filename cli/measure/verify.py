"""Launch every variant of a cache on this GPU in many ways, and compare the results with a reference.

Exit status 1 means that a variant is wrong, or that none could be verified. Variants are launched in a separate
process: one that crashes or hangs counts as wrong, and the others continue. The smallest failing case is printed
with the command that repeats it.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections import Counter
from contextlib import ExitStack
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from precast.cli.shared import options
from precast.cli.shared.junit import ReportedCase, report
from precast.cli.shared.output import count, print_message, print_result
from precast.cli.shared.progress import Progress
from precast.cli.shared.values import check_key_prefix, check_output_file, problem_sizes, problem_text

if TYPE_CHECKING:
    from precast.build.verification.evidence import EarlierEvidence
    from precast.build.verification.verifier import Options, Verified
    from precast.kernels.authoring.verification.check import Check
    from precast.loader.machine.driver import Device
    from precast.loader.resolve.cache import Cache

_KEY = 12  # digits of a key that name an artifact


class Sanitizer(str, Enum):
    """The tools of ``compute-sanitizer`` that a launch runs under."""

    memcheck = "memcheck"
    racecheck = "racecheck"


def command(
    cache: options.Cache,
    op: options.Op = None,
    key: options.KeyPrefix = "",
    problem: Annotated[
        str, typer.Option("--problem", help="Launch this problem only, such as n=5.", metavar="SIZES")
    ] = "",
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="The seed of the random inputs, below 2**63.", metavar="N")
    ] = 0,
    small: Annotated[bool, typer.Option("--small", help="Launch only problems of at most 2**20 elements.")] = False,
    timeout: options.Timeout = 1200.0,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, max=64, help="Variants to verify at once, on one GPU.", metavar="N")
    ] = 1,
    sanitizer: Annotated[
        Sanitizer | None,
        typer.Option("--sanitizer", help="Launch small problems under this tool of compute-sanitizer."),
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
    from precast.build.verification.evidence import EarlierEvidence
    from precast.build.verification.verifier import Options
    from precast.kernels.authoring.launching.cases import ops_of, this_device
    from precast.kernels.authoring.verification.scenarios import SMALL
    from precast.loader.resolve.cache import Cache

    if seed >= 1 << 63:
        raise typer.BadParameter(f"--seed {seed} is too large: torch takes less than 2**63")
    check_key_prefix(key)
    for option, value in (("--record", record), ("--known", known_cache)):
        if value and (problem or small or sanitizer):
            raise typer.BadParameter(f"{option} needs all problems: leave out --problem, --small and --sanitizer")
    check_output_file("--junit", junit)
    sizes = problem_sizes(problem) if problem else None
    opened, earlier_cache = Cache(cache), Cache(known_cache) if known_cache else None
    ops = ops_of(opened, op or ())
    if sanitizer is not None:
        _run_sanitizer(sanitizer.value, sys.argv[1:], opened, ops)
        return
    how = Options(seed=seed, problem=sizes, most=SMALL if small else None)
    try:
        device = this_device()
        earlier = EarlierEvidence(earlier_cache, device.name) if earlier_cache else None
        results = _verify(opened, device, ops, key, how, earlier, seconds=timeout, jobs=jobs)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no evidence was written") from None
    _print_results(opened, device, results, seed, junit, record, as_json)


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
    from precast.build.verification.sanitizer import FOUND, common_prefix, run
    from precast.kernels.authoring.launching.cases import launchable

    kernels = [part.kernel for _, artifact in launchable(cache, ops) for part in artifact.resources]
    status = run(tool, [sys.executable, "-m", "precast.cli.main", *without_sanitizer(words)], common_prefix(kernels))
    if status == FOUND:
        print_message(f"error: {tool} reported the errors above: correct the kernels that it names")
    if status:
        raise typer.Exit(1)


def _verify(
    cache: Cache,
    device: Device,
    ops: tuple[str, ...],
    key: str,
    how: Options,
    earlier: EarlierEvidence | None,
    *,
    seconds: float,
    jobs: int,
) -> list[Verified]:
    from precast.build.on_gpu.launches import Launches
    from precast.build.verification.verifier import verify_each
    from precast.kernels.authoring.launching.cases import cases
    from precast.loader.errors import ConfigError

    with Progress() as progress:
        progress.stage(f"opening the artifacts of {count(len(ops), 'op')}")
        selected = [case for case in cases(cache, device, ops) if case.artifact.key.startswith(key)]
        if key and not selected:
            raise ConfigError(f"cache {cache.name!r} has no object whose key starts with {key}: see 'precast list'")
        progress.total = len(selected)
        with ExitStack() as processes:
            number = max(1, min(jobs, len(selected)))
            launches = [processes.enter_context(Launches(cache.path, seconds)) for _ in range(number)]
            return verify_each(selected, how, launches, progress, earlier)


def _print_results(
    cache: Cache,
    device: Device,
    results: list[Verified],
    seed: int,
    junit: Path | None,
    record: bool,
    as_json: bool,
) -> None:
    """Write and print the results, and exit with status 1 unless everything passed."""
    from precast.build.cache.annotate import add_evidence
    from precast.build.verification.evidence import where_and_when
    from precast.build.verification.verifier import worst_of
    from precast.loader.resolve.evidence import CHECK

    facts = where_and_when(device, os.environ)
    done = [result for result in results if not result.left_out]
    evidence: dict[str, dict[str, Any]] = {}
    for result in done:
        entry = result.earlier or {"check": CHECK, **facts, "seed": seed, **result.outcome}
        evidence.setdefault(result.op, {})[result.key] = dict(entry)
    if junit is not None:
        junit.write_bytes(report("precast verify", [_case(result) for result in results], {**facts, "seed": seed}))
    if record and done:
        add_evidence(cache, evidence)
    lines = [f"wrong: {result.name}: {text}" for result in done for text in result.outcome["failed"]]
    worst = worst_of(done)
    smallest = None
    if worst is not None:
        result, check = worst
        repeat = repeating(str(cache.path), result, check, seed)
        smallest = {"op": result.op, "key": result.key, "failure": str(check), "repeat": repeat}
        lines += [f"smallest failing case: {result.name}: {check}", f"to repeat it: {repeat}"]
    runs_left_out = Counter(text for result in done for text in result.outcome["left_out"])
    lines += [f"left out: {text} ({count(number, 'variant')})" for text, number in runs_left_out.items()]
    before = sum(result.earlier is not None for result in done)
    verified = f"{count(len(done) - before, 'variant')} verified on {device.name}"
    earlier = f"{before} verified before, " if before else ""
    lines.append(f"{verified}, {earlier}{len(results) - len(done)} left out")
    left_out = {result.key: result.left_out for result in results if result.left_out}
    print_result({"evidence": evidence, "left_out": left_out, "smallest": smallest}, "\n".join(lines), as_json)
    if worst is not None or not done:
        raise typer.Exit(1)


def _case(result: Verified) -> ReportedCase:
    return ReportedCase(
        group=result.op,
        name=f"{result.name} {result.key[:_KEY]}",
        seconds=result.seconds,
        failures=() if result.left_out else result.outcome["failed"],
        skipped=result.left_out,
    )


def repeating(cache: str, result: Verified, check: Check, seed: int) -> str:
    """The command line that runs one failing check again, and little else.

    >>> from precast.build.verification.verifier import Verified
    >>> from precast.kernels.authoring.verification.check import Check
    >>> failed = Check(problem={"n": 5}, output="out", error=2.0, fault="wrong")
    >>> repeating("my cache", Verified(op="scale", key="3f2a91c07d55" + "0" * 52, name="scale"), failed, 7)
    "precast verify 'my cache' --op scale --key 3f2a91c07d55 --problem n=5 --seed 7"
    """
    sizes = problem_text(check.problem)
    words = ["precast", "verify", cache, "--op", result.op, "--key", result.key[:_KEY]]
    return shlex.join([*words, *(["--problem", sizes] if sizes else []), "--seed", str(seed)])
