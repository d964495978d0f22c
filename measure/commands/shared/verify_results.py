"""What ``precast verify`` prints and writes: the same for what a GPU showed and for what an emulation did."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from precast.cli.shared.output import count, print_result
from precast.measure.commands.shared.junit import ReportedCase, report
from precast.measure.commands.shared.values import problem_text

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache
    from precast.measure.checks.check import Check
    from precast.measure.verification.verifier import Verified

_VARIANTS = 3  # of an op whose failures are printed
_KEY = 12  # digits of a key that name an artifact


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """How variants were verified: the fields that all evidence of it has, and the same in words.

    ``words`` are the options of the command line that repeats it, beside those that choose a variant and a problem.
    """

    facts: Mapping[str, Any]
    where: str
    seed: int
    words: Sequence[str] = ()


def print_verified(
    cache: Cache, results: list[Verified], run: Run, *, junit: Path | None, record: bool, as_json: bool
) -> None:
    """Write and print the results, and exit with status 1 unless something was verified and nothing is wrong."""
    from precast.measure.annotate import add_evidence
    from precast.measure.verification.verifier import worst_of

    done = [result for result in results if not (result.left_out or result.refused)]
    evidence: dict[str, dict[str, Any]] = {}
    for result in done:
        entry = result.earlier or {**run.facts, "seed": run.seed, **result.outcome}
        evidence.setdefault(result.op, {})[result.key] = dict(entry)
    if junit is not None:
        junit.write_bytes(report("precast verify", [_case(r) for r in results], {**run.facts, "seed": run.seed}))
    if record and done:
        add_evidence(cache, evidence)
    worst = worst_of(done)
    smallest = None
    if worst is not None:
        result, check = worst
        repeat = repeating(str(cache.path), result, check, run)
        smallest = {"op": result.op, "key": result.key, "failure": str(check), "repeat": repeat}
    left_out = {result.key: result.left_out for result in results if result.left_out}
    refused = {result.key: result.refused for result in results if result.refused}
    variants = {r.key: {"op": r.op, "opcode": r.opcode} for r in results}
    data = {"evidence": evidence, "left_out": left_out, "refused": refused, "smallest": smallest, "variants": variants}
    print_result(data, "\n".join(_lines(results, done, worst, smallest, run)), as_json)
    if worst is not None or not done:
        raise typer.Exit(1)


def _lines(
    results: Sequence[Verified],
    done: Sequence[Verified],
    worst: tuple[Verified, Check] | None,
    smallest: Mapping[str, str] | None,
    run: Run,
) -> list[str]:
    lines = list(_wrong(done))
    if worst is not None and smallest is not None:
        lines += [f"smallest failing case: {worst[0].name}: {worst[1]}", f"to repeat it: {smallest['repeat']}"]
    runs_left_out = Counter(text for result in done for text in result.outcome["left_out"])
    lines += [f"not run: {text} ({count(number, 'variant')})" for text, number in runs_left_out.items()]
    opcodes = Counter(result.opcode or result.refused for result in results if result.refused)
    lines += [f"refused: {text} ({count(number, 'variant')})" for text, number in opcodes.items()]
    right = [result for result in done if not result.outcome["failed"]]
    before = sum(result.earlier is not None for result in right)
    verified = f"{count(len(right) - before, 'variant')} verified {run.where}"
    earlier = f"{before} verified before, " if before else ""
    wrong = f"{len(done) - len(right)} wrong, " if len(right) < len(done) else ""
    refused = f"{sum(opcodes.values())} refused, " if opcodes else ""
    return [*lines, f"{verified}, {earlier}{wrong}{refused}{sum(bool(r.left_out) for r in results)} left out"]


def _wrong(done: Sequence[Verified]) -> Iterator[str]:
    """The first failure of each wrong variant, of few variants of an op: what is wrong with one is, with most."""
    wrong = [result for result in done if result.outcome["failed"]]
    for op in dict.fromkeys(result.op for result in wrong):
        mine = [result for result in wrong if result.op == op]
        for result in mine[:_VARIANTS]:
            first, *others = result.outcome["failed"]
            more = f" ({count(len(others), 'more failure')})" if others else ""
            yield f"wrong: {result.name}: {first}{more}"
        if rest := len(mine[_VARIANTS:]):
            yield f"wrong: {count(rest, 'more variant')} of {op}; --json has all failures"


def _case(result: Verified) -> ReportedCase:
    skipped = result.left_out or result.refused
    return ReportedCase(
        group=result.op,
        name=f"{result.name} {result.key[:_KEY]}",
        seconds=result.seconds,
        failures=() if skipped else result.outcome["failed"],
        skipped=skipped,
    )


def repeating(cache: str, result: Verified, check: Check, run: Run) -> str:
    """The command line that runs one failing check again, and little else.

    >>> from precast.measure.verification.verifier import Verified
    >>> from precast.measure.checks.check import Check
    >>> failed = Check(problem={"n": 5}, output="out", error=2.0, fault="wrong")
    >>> variant = Verified(op="scale", key="3f2a91c07d55" + "0" * 52, name="scale")
    >>> repeating("my cache", variant, failed, Run(facts={}, where="", seed=7))
    "precast verify 'my cache' --op scale --key 3f2a91c07d55 --problem n=5 --seed 7"
    """
    sizes = problem_text(check.problem)
    words = ["precast", "verify", cache, "--op", result.op, "--key", result.key[:_KEY]]
    return shlex.join([*words, *(["--problem", sizes] if sizes else []), "--seed", str(run.seed), *run.words])
