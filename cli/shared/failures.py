"""The failed variants of a build as text: one example for each reason, with details that fit a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from precast.cli.shared.output import count

if TYPE_CHECKING:
    from precast.build.compile.outcome import Failed

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
