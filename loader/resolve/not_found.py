"""Not found: the errors of requests that no artifact serves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from precast.loader.errors import NoCudaDevice, VariantNotFound
from precast.loader.resolve.choose import Rejected
from precast.loader.resolve.resolution import Resolution, heading, remedy

_NEAREST = 3  # candidates in an error's message; its resolution holds all of them
_WIDEST = 300  # characters of a line about a candidate


def refuse(resolution: Resolution) -> NoReturn:
    """Raise the error of a resolution that accepted nothing."""
    machine = resolution.machine
    if machine.capability is None:
        raise NoCudaDevice(
            f"{resolution.request.op}: there is no CUDA device: {machine.absent}. Run this where there is one, or give"
            " target='sm_90a' or the like to resolve for an architecture"
        )
    raise VariantNotFound("\n".join(_message(resolution)), resolution)


def _message(resolution: Resolution) -> Iterator[str]:
    """The request, the nearest candidates with the keys that differ, how many others there are, and what to do.

    A server logs this: an op with hundreds of variants must not fill the log.
    """
    yield "no variant fits"
    yield _cut(heading(resolution))
    distinct: dict[tuple[object, ...], Rejected] = {}
    for rejected in resolution.rejected:  # variants that differ in tuned keys only say the same
        distinct.setdefault((rejected.candidate.artifact.target, rejected.reasons), rejected)
    nearest = list(distinct.values())[:_NEAREST]
    if nearest:
        yield "nearest:"
    else:
        yield "no candidate"
    for rejected in nearest:
        artifact = rejected.candidate.artifact
        where = f"{artifact.target} {artifact.key[:12]} {rejected.candidate.source.cache}"
        yield _cut(f"  {where}: {'; '.join(rejected.reasons)}")
    others = len(resolution.rejected) + resolution.unjudged - len(nearest)
    if others:
        yield f"and {others} more: loader.explain(...) lists them"
    yield from (f"note: {note}" for note in resolution.notes)
    yield from remedy(resolution)


def _cut(line: str) -> str:
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 4]} ..."
