"""Choosing: the one decision about a request. ``get`` reads verdicts up to the first that serves, ``resolve`` all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.target import Target
from precast.loader.contract.values import Immutable
from precast.loader.errors import CacheError, ConfigError, FormatError, TargetError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import CachedOp, Candidate, Request, Requirements, bucketing, sort_key
from precast.loader.resolve.rules import objections, reservation

if TYPE_CHECKING:
    Refusal = ConfigError | CacheError
    Contender = tuple[CachedOp, int, Requirements]  # a row of an op in one cache, not parsed yet

MOST_OF_ONE_CONFIG = 4096
"""The artifacts of an op that may agree in every key that is not tuned: all of them are judged for one request."""
_MALFORMED = (-1,)  # sorts before all others, so that it is parsed, refused and skipped


class Accepted(Immutable):
    """A candidate that serves the request; ``literal`` unless it writes a dtype in another way than the request.

    ``reservation`` is why one that was built for this very GPU is preferred; ``outputs`` names what it writes beyond
    the request.
    """

    candidate: Candidate
    literal: bool = True
    reservation: str = ""
    outputs: tuple[str, ...] = ()


class Rejected(Immutable):
    """A candidate that does not, with every reason, the config keys that differ, and by how much they do."""

    candidate: Candidate
    reasons: tuple[str, ...]
    differing: tuple[str, ...] = ()
    distance: float = 0.0


def choose(request: Request, machine: Machine, sources: Iterable[CachedOp]) -> Candidate | None:
    """The best artifact of an op that serves a request without a problem: what ``resolve`` has first.

    Only as many rows are parsed and judged as it takes to find it.

    Parameters
    ----------
    request
        The op and the config.
    machine
        Where it is to run.
    sources
        The op in each cache that has it. One that cannot be read is left out, unless it is the only one.
    """
    rows, _ = contenders(request, sources, lambda source, required: may_serve(source, required, machine))
    best: Candidate | None = None
    for verdict in verdicts(rows, machine):
        if not isinstance(verdict, Accepted) or (best and verdict.candidate.variant != best.variant):
            continue
        if not verdict.reservation:
            return verdict.candidate
        best = best or verdict.candidate  # unless the same variant was built for this very GPU, too
    return best


def preferred(accepted: Sequence[Accepted]) -> tuple[Accepted, ...]:
    """Accepted candidates in the order of their rows, those of one variant together, and the best of each first.

    Which variant is best is the same on any GPU. Artifacts of it that were built for a GPU like this one come first.
    """
    variants = [each.candidate.variant for each in accepted]
    first: dict[object, int] = {}
    for position, variant in enumerate(variants):
        first.setdefault(variant, position)
    order = sorted(range(len(accepted)), key=lambda n: (first[variants[n]], bool(accepted[n].reservation)))
    return tuple(accepted[n] for n in order)


def contenders(
    request: Request, sources: Iterable[CachedOp], positions: Callable[[CachedOp, Requirements], Iterable[int]]
) -> tuple[list[Contender], list[tuple[CachedOp, Refusal]]]:
    """The rows to judge, the preferred ones first; and the sources that refuse the request, or are damaged.

    ``positions`` selects the rows of a source. It is an error where all sources refuse.
    """
    rows: list[Contender] = []
    refused: list[tuple[CachedOp, Refusal]] = []
    ordered = sorted(sources, key=lambda source: source.precedence)
    for source in ordered:
        try:
            required = Requirements.of(request, source.op.keys)
            rows += [(source, position, required) for position in positions(source, required)]
        except (ConfigError, CacheError) as refusal:
            refused.append((source, refusal))
    if refused and len(refused) == len(ordered):
        raise refused[0][1]
    if len(rows) > 1:
        rows.sort(key=_place)
    return rows, refused


def verdicts(rows: Iterable[Contender], machine: Machine) -> Iterator[Accepted | Rejected | FormatError]:
    """A verdict about each row, made when it is read; an error for a row that cannot be parsed."""
    for source, position, required in rows:
        try:
            candidate = Candidate(source, source.op.artifact(position))
        except FormatError as error:
            yield error
            continue
        yield judge(candidate, required, machine)


def judge(candidate: Candidate, required: Requirements, machine: Machine) -> Accepted | Rejected:
    """Whether a candidate serves a request on a machine; if not, every reason."""
    reasons = objections(candidate, required, machine)
    config = candidate.artifact.config
    if reasons:
        differing = required.differing(config, candidate.artifact.signature)
        return Rejected(candidate, reasons, differing, distance(differing, config, required))
    return Accepted(candidate, required.literal(config), reservation(candidate, machine), required.differing(config))


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


def _place(contender: Contender) -> tuple[Any, ...]:
    """What a row is sorted by: the outputs it has beyond the request, the spelling of its dtypes, then its rank."""
    source, position, required = contender
    row = source.op.rows[position]
    try:
        config = fields.get(row, "config", dict)
        target = Target.parse(fields.get(row, "target", str))
        rank, kind, key = fields.get(row, "rank", int), fields.get(row, "kind", str), fields.get(row, "key", str)
    except (FormatError, TargetError):
        return _MALFORMED
    differing = len(required.differing(config))
    return differing, not required.literal(config), *sort_key(target, source.precedence, rank, kind, key)


def distance(differing: Iterable[str], config: Mapping[str, object], required: Requirements) -> float:
    """How far apart a config and a request are, in the keys in which they differ."""
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
