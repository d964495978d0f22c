"""Choosing: the artifact that ``get`` takes. It is the one that ``resolve`` ranks first, but this judges only a few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.target import Target
from precast.loader.errors import CacheError, ConfigError, FormatError, TargetError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp, Candidate, Request, Requirements, bucketing, sort_key
from precast.loader.resolve.rules import objections, reservation

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

Refusal = ConfigError | CacheError

MOST_OF_ONE_CONFIG = 4096
"""The artifacts of an op that may agree in every key that is not tuned: all of them are judged for one request."""
_MALFORMED = (-1,)  # sorts before all others, so that it is parsed, refused and skipped


def choose(request: Request, machine: Machine, sources: Iterable[CachedOp]) -> Candidate | None:
    """The best artifact of an op that serves a request without a problem; the best are judged first.

    Parameters
    ----------
    request
        The op and the config.
    machine
        Where it is to run.
    sources
        The op in each cache that has it. One that cannot be read is left out, unless it is the only one.
    """
    contenders, _ = for_each_source(
        request,
        sources,
        lambda source, required: [(source, position, required) for position in may_serve(source, required, machine)],
    )
    if len(contenders) > 1:
        contenders.sort(key=lambda contender: _place(*contender))
    best: Candidate | None = None
    for source, position, required in contenders:
        try:
            candidate = Candidate(source, source.op.artifact(position))
        except FormatError:
            continue
        if best is not None and candidate.variant != best.variant:
            continue
        if objections(candidate, required, machine):
            continue
        if not reservation(candidate, machine):
            return candidate
        best = best or candidate  # unless the same variant was built for this very GPU, too
    return best


def for_each_source(
    request: Request, sources: Iterable[CachedOp], about: Callable[[CachedOp, Requirements], Iterable[T]]
) -> tuple[list[T], list[tuple[CachedOp, Refusal]]]:
    """What ``about`` returns for each source, the preferred ones first; and the sources that refuse, or are damaged.

    It is an error where all of them do.
    """
    results: list[T] = []
    refused: list[tuple[CachedOp, Refusal]] = []
    ordered = sorted(sources, key=lambda source: source.precedence)
    for source in ordered:
        try:
            results += list(about(source, Requirements.of(request, source.op.keys)))
        except (ConfigError, CacheError) as refusal:
            refused.append((source, refusal))
    if refused and len(refused) == len(ordered):
        raise refused[0][1]
    return results, refused


def may_serve(source: CachedOp, required: Requirements, machine: Machine) -> Iterator[int]:
    """The positions of the rows that may serve, by a quick test of rows that are not parsed yet."""
    for position in of_one_config(source, required):
        row = source.op.rows[position]
        if not required.differing(row.get("config"), row.get("signature")) and _may_run(row, machine):
            yield position


def of_one_config(source: CachedOp, required: Requirements) -> list[int]:
    """The positions of the rows that agree with a request in every key that is not tuned."""
    bucket = bucketing(source.op.keys)
    positions = source.op.positions(bucket, bucket(required.values), required.sign)
    if len(positions) > MOST_OF_ONE_CONFIG:
        raise CacheError(
            f"op {source.op.op!r} has {len(positions)} artifacts of one config, more than the {MOST_OF_ONE_CONFIG} that"
            " a loader judges: build fewer tuned variants"
        )
    return positions


def _may_run(row: Mapping[str, Any], machine: Machine) -> bool:
    """False only for what the rules would refuse."""
    target = row.get("target")
    if isinstance(target, str) and machine.capability is not None:
        try:
            return Target.parse(target).runs_on(machine.capability)
        except TargetError:
            pass
    return True


def _place(source: CachedOp, position: int, required: Requirements) -> tuple[Any, ...]:
    """What a row is sorted by: as ``resolve`` sorts the artifact that it describes."""
    row = source.op.rows[position]
    try:
        target = Target.parse(fields.get(row, "target", str))
        rank, kind, key = fields.get(row, "rank", int), fields.get(row, "kind", str), fields.get(row, "key", str)
    except (FormatError, TargetError):
        return _MALFORMED
    extra = len(required.differing(row["config"]))
    return (extra, not required.literal(row["config"]), *sort_key(target, source.precedence, rank, kind, key))
