"""The output of a build: its progress, then what was built and what failed, as text or as events in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precast.cli.shared.output import count, print_message, size
from precast.cli.shared.progress import Progress

if TYPE_CHECKING:
    from precast.build.compile.outcome import Failed
    from precast.build.plan.plan import Plan
    from precast.build.report import Report, Step

# A variant that takes longer, or is larger, is worth a line.
_SLOW, _LARGE = 10.0, 1_000_000


class Display:
    """The output of a running build: progress on stderr, or events on stdout with ``--json``."""

    def __init__(self, progress: Progress | None, *, events: bool) -> None:
        self._progress, self._events = progress, events
        self._usable = False

    def stage(self, text: str) -> None:
        """Show what the build does before and after it compiles."""
        if self._progress is not None:
            self._progress.stage(text)

    def show(self, step: Step) -> None:
        """Show one step of the build."""
        progress = self._progress
        if self._events:
            event(step.to_json())
        if progress is None:
            return
        progress.total = step.total
        variant = str(step.variant)
        if step.state == "started":
            progress.begin(variant)
        elif step.state == "reused":
            progress.skip()
        else:
            note = f"{step.seconds:.2f} s" if step.state == "built" else "failed"
            progress.step(variant, note, keep=step.state == "failed")
        self._usable |= step.state in ("reused", "built")
        if step.done == step.total and self._usable:
            progress.stage("writing the cache")


def event(data: dict[str, Any]) -> None:
    """Print one event of a build as a line of JSON."""
    print(json.dumps(data, sort_keys=True, allow_nan=False), flush=True)


def print_report(plan: Plan, report: Report, output: Path, *, as_json: bool, verbose: bool) -> None:
    """Print what failed and what to know about the rest on stderr, and the counts on stdout."""
    print_failures(report, verbose=verbose)
    for skipped in plan.skipped:
        print_message(f"skipped: {skipped.variant}: {skipped.reason}")
    for variant, text in report.advice:
        print_message(f"warning: {variant.location}: {text}")
    if report.closed.startswith("none"):
        print_message(
            "warning: this machine cannot close compilations: undeclared reads of native code and programs are not "
            "refused. Build where user namespaces or Landlock (Linux 5.13) are allowed"
        )
    if as_json:
        skips = [{**s.variant.to_json(), "reason": s.reason} for s in plan.skipped]
        event({**report.to_json(), "cache": str(output), "skipped": skips})
    else:
        print(_as_text(report, output))


def print_failures(report: Report, *, verbose: bool) -> None:
    """Print what failed on stderr."""
    if report.failed:
        print_message(f"\n{render(report.failed, verbose=verbose)}")


def _as_text(report: Report, output: Path) -> str:
    lines = [f"slow:   {b.variant}: {b.seconds:.2f} s" for b in report.slowest() if b.seconds >= _SLOW]
    lines += [f"large:  {b.variant}: {size(b.size)}" for b in report.largest() if b.size >= _LARGE]
    lines += [f"spills: {b.variant}: {b.spilled} bytes a thread" for b in report.spilling()]
    lines += [f"unlaunchable: the cubin of {b.variant}: {b.unlaunchable}" for b in report.unlaunchable()]
    lines += [f"measured: {report.tuning}"] if report.tuning else []
    return "\n".join([*lines, totals(report, output)])


def totals(report: Report, output: Path) -> str:
    """How many variants were built, reused and failed, and the size of the cache, in one line."""
    states = [f"{count(len(report.built), 'variant')} built", f"{len(report.reused)} reused"]
    states += [f"{len(report.failed)} failed"] if report.failed else []
    written = f"{output} ({size(report.size)})" if report.files else "nothing was written"
    closed = f", closed by {report.closed}" if report.closed else ""
    return f"{', '.join(states)}: {written}{closed}"


_DETAILS = 12  # the last lines of the details, where an exception's own text is
_REASONS = 10


def render(failed: Sequence[Failed], *, verbose: bool = False) -> str:
    """Each reason with one variant; with ``verbose``, every variant with all details."""
    groups = [(failure,) for failure in failed] if verbose else by_reason(failed)
    shown = groups if verbose else groups[:_REASONS]
    blocks = ["\n".join(_block(group, verbose)) for group in shown]
    if len(groups) > len(shown):
        blocks.append(f"and {count(len(groups) - len(shown), 'more reason')}: --verbose prints them")
    return "\n\n".join(blocks)


def by_reason(failed: Sequence[Failed]) -> list[tuple[Failed, ...]]:
    """Failures grouped by reason, the largest group first. Reasons that differ only in numbers are the same."""
    groups: dict[str, list[Failed]] = {}
    for failure in failed:
        groups.setdefault(re.sub(r"[0-9]+", "0", failure.reason), []).append(failure)
    return sorted(map(tuple, groups.values()), key=len, reverse=True)


def _block(group: Sequence[Failed], verbose: bool) -> Iterator[str]:
    first, *others = group
    code = f" ({first.code})" if first.code else ""
    yield f"error: {first.variant.location}: {first.variant}: {first.reason}{code}"
    lines = first.details.rstrip().splitlines() if first.details.strip() else []
    if lines and lines[-1].strip() == first.reason:  # the end of a traceback
        del lines[-1]
    if len(lines) > _DETAILS and not verbose:
        yield f"    ... {count(len(lines) - _DETAILS, 'earlier line')}: --verbose prints them"
        lines = lines[-_DETAILS:]
    yield from (f"    {line}" for line in lines)
    if others:
        yield f"and {count(len(others), 'more variant')} for the same reason: --verbose lists them"
