"""Judging: every artifact of an op, which of them serve a request on a machine, and why the others do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import TYPE_CHECKING

from precast.loader.locks import IMPORT_LOCK
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp, Request, Requirements, Verified
from precast.loader.resolve.choose import (
    Accepted,
    Rejected,
    contenders,
    distance,
    may_serve,
    of_one_config,
    preferred,
    verdicts,
)
from precast.loader.resolve.resolution import Resolution

if TYPE_CHECKING:
    from precast.loader.resolve.choose import Contender

MOST_JUDGED = 1000
"""The artifacts of an op that an explanation judges: those whose configs are nearest to the request."""


def resolve(
    request: Request,
    machine: Machine,
    sources: Iterable[CachedOp],
    *,
    full: bool = True,
    notes: Iterable[str] = (),
) -> Resolution:
    """Judge every artifact of an op.

    Parameters
    ----------
    request
        The op and the config.
    machine
        Where it is to run.
    sources
        The op in each cache that has it.
    full
        Whether to judge those that differ in config or target, too, the nearest ``MOST_JUDGED`` of each source: True to
        explain, False to choose for a problem. Without a problem, use ``choose``, which does less.
    notes
        Further notes for the text of the decision.
    """
    sources = tuple(sorted(sources, key=lambda source: source.precedence))
    rows, refused = contenders(
        request,
        sources,
        lambda source, required: _nearest(source, required) if full else may_serve(source, required, machine),
    )
    accepted, rejected, noted = _judged(rows, machine)
    noted += [f"cache {source.cache!r} was left out: {refusal}" for source, refusal in refused]
    readable = {id(source) for source in sources} - {id(source) for source, _ in refused}
    every = sum(len(source.op.rows) for source in sources if id(source) in readable)
    resolution = Resolution(
        request,
        machine,
        preferred(accepted),
        tuple(sorted(rejected, key=lambda r: (len(r.differing), len(r.reasons), r.distance, *r.candidate.listed))),
        (*notes, *noted),
        sources,
        unjudged=every - len(rows) if full else 0,
    )
    if request.problem is None or not accepted:
        return resolution
    with IMPORT_LOCK:
        from precast.loader.resolve.by_problem import ByProblem
    return ByProblem(resolution).decide(request.problem)


def resolve_every(
    op: str, machine: Machine, sources: Iterable[CachedOp], *, notes: Iterable[str] = (), verified: Verified = False
) -> Resolution:
    """Judge every artifact of an op for a machine, whatever its config; with ``verified``, only those that were.

    Several accepted artifacts may have one config: for several targets, as an object and a cubin, in several caches.
    ``get`` takes the first of them for that config.
    """
    sources = tuple(sources)
    rows: list[Contender] = []
    for source in sources:
        required = Requirements(source.op.keys, {}, verified)
        rows += [(source, position, required) for position in range(len(source.op.rows))]
    accepted, rejected, noted = _judged(rows, machine)
    accepted.sort(key=lambda a: a.candidate.listed)
    rejected.sort(key=lambda r: (len(r.reasons), *r.candidate.listed))
    return Resolution(
        Request(op=op, verified=verified), machine, preferred(accepted), tuple(rejected), (*notes, *noted), sources
    )


def _judged(rows: list[Contender], machine: Machine) -> tuple[list[Accepted], list[Rejected], list[str]]:
    """The verdicts about rows, and a note for each row that cannot be parsed."""
    accepted: list[Accepted] = []
    rejected: list[Rejected] = []
    notes: list[str] = []
    for (source, _, _), verdict in zip(rows, verdicts(rows, machine), strict=True):
        if isinstance(verdict, Accepted):
            accepted.append(verdict)
        elif isinstance(verdict, Rejected):
            rejected.append(verdict)
        else:
            notes.append(f"cache {source.cache!r}: an artifact was left out: {verdict}")
    return accepted, rejected, notes


def _nearest(source: CachedOp, required: Requirements) -> list[int]:
    """The positions of the rows to judge: all of a few, else those whose configs are nearest to the request. All that
    serve it are among them."""
    every = range(len(source.op.rows))
    if len(every) <= MOST_JUDGED:
        return list(every)
    exact = of_one_config(source, required)

    def apart(position: int) -> tuple[int, float]:
        config = source.op.rows.configs[position]
        differing = required.differing(config)
        return len(differing), distance(differing, config, required) if isinstance(config, Mapping) else 0.0

    return sorted({*exact, *nsmallest(MOST_JUDGED, every, key=apart)})
