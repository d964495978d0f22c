"""Judging: which artifacts of an op serve a request on a machine, and why the others do not, by pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from operator import itemgetter
from typing import Any

from precast.loader.contract.format.target import Target
from precast.loader.errors import FormatError
from precast.loader.import_lock import IMPORT_LOCK
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp, Candidate, Request, Requirements, Verified
from precast.loader.resolve.choose import for_each_source, may_serve, of_one_config
from precast.loader.resolve.resolution import Accepted, Rejected, Resolution
from precast.loader.resolve.rules import objections
from precast.loader.resolve.rules import reservation as reservation_of

MOST_JUDGED = 1000
"""The artifacts of an op that an explanation judges: those whose configs are nearest to the request."""


def judge(candidate: Candidate, required: Requirements, machine: Machine) -> Accepted | Rejected:
    """Whether a candidate serves a request on a machine; if not, every reason."""
    reasons = objections(candidate, required, machine)
    config = candidate.artifact.config
    if reasons:
        differing = required.differing(config)
        return Rejected(candidate, reasons, differing, _distance_in(differing, config, required))
    reservation = reservation_of(candidate, machine)
    return Accepted(candidate, required.literal(config), reservation)


def _distance_in(differing: Iterable[str], config: Mapping[str, object], required: Requirements) -> float:
    return sum(_distance(config.get(name), required.values[name]) for name in differing)


def _distance(first: object, second: object) -> float:
    """How far apart two values are: numbers by their ratio, below 1; other unequal values, 1."""
    if isinstance(first, tuple) and isinstance(second, tuple) and len(first) == len(second) and first:
        return sum(map(_distance, first, second)) / len(first)
    if _number(first) and _number(second):
        return _ratio(first, second)  # type: ignore[arg-type]
    return 0.0 if first == second and type(first) is type(second) else 1.0


def _ratio(first: float, second: float) -> float:
    bits = abs(math.log2(abs(first) + 1) - math.log2(abs(second) + 1)) + ((first < 0) != (second < 0))
    return bits / (bits + 1)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


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
    noted: list[str] = []
    unjudged = [0]

    def verdicts_of(source: CachedOp, required: Requirements) -> Iterator[Accepted | Rejected]:
        positions = _nearest(source, required) if full else may_serve(source, required, machine)
        unjudged[0] += len(source.op.rows) - len(positions) if isinstance(positions, list) else 0
        return _verdicts(source, positions, required, machine, noted)

    verdicts, refused = for_each_source(request, sources, verdicts_of)
    accepted = [verdict for verdict in verdicts if isinstance(verdict, Accepted)]
    rejected = [verdict for verdict in verdicts if isinstance(verdict, Rejected)]
    noted += [f"cache {source.cache!r} was left out: {refusal}" for source, refusal in refused]
    resolution = Resolution(
        request,
        machine,
        preferred(accepted),
        tuple(sorted(rejected, key=lambda r: (len(r.differing), len(r.reasons), r.distance, *r.candidate.listed))),
        (*notes, *noted),
        sources,
        unjudged=unjudged[0],
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
    sources, noted = tuple(sources), list(notes)
    verdicts = [
        verdict
        for source in sources
        for verdict in _verdicts(
            source, range(len(source.op.rows)), Requirements(source.op.keys, {}, verified), machine, noted
        )
    ]
    accepted = preferred((v for v in verdicts if isinstance(v, Accepted)), _listed)
    rejected = sorted(
        (v for v in verdicts if isinstance(v, Rejected)), key=lambda r: (len(r.reasons), *r.candidate.listed)
    )
    return Resolution(Request(op=op, verified=verified), machine, accepted, tuple(rejected), tuple(noted), sources)


def _preference(accepted: Accepted) -> tuple[Any, ...]:
    return not accepted.literal, *accepted.candidate.rank


def _listed(accepted: Accepted) -> tuple[Any, ...]:
    return accepted.candidate.listed


def preferred(
    accepted: Iterable[Accepted], sort_key: Callable[[Accepted], tuple[Any, ...]] = _preference
) -> tuple[Accepted, ...]:
    """The best first. Which variant is best, its target, its cache and the author's order decide, as on any GPU; of the
    artifacts of one variant, those built for a GPU like this one come first."""
    ordered = sorted(((sort_key(each), each.candidate.variant, each) for each in accepted), key=itemgetter(0))
    first: dict[tuple[bytes, Target], tuple[Any, ...]] = {}
    for key, variant, _ in ordered:
        first.setdefault(variant, key)
    ordered.sort(key=lambda row: (first[row[1]], bool(row[2].reservation), row[0]))
    return tuple(each for _, _, each in ordered)


def _verdicts(
    source: CachedOp, positions: Iterable[int], required: Requirements, machine: Machine, notes: list[str]
) -> Iterator[Accepted | Rejected]:
    """A judgement of each of these artifacts of a source."""
    for position in positions:
        try:
            yield judge(Candidate(source, source.op.artifact(position)), required, machine)
        except FormatError as error:
            notes.append(f"cache {source.cache!r}: an artifact was left out: {error}")


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
        return len(differing), _distance_in(differing, config, required) if isinstance(config, Mapping) else 0.0

    return sorted({*exact, *nsmallest(MOST_JUDGED, every, key=apart)})
