"""By problem: of the variants that serve a request, the one that is fastest by measurements for the given sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from precast.loader.contract.format.target import Target
from precast.loader.contract.format.tuning.estimate import Estimate
from precast.loader.contract.format.tuning.table import Table
from precast.loader.contract.values import replace
from precast.loader.errors import FormatError
from precast.loader.machine.machine import Machine
from precast.loader.resolve.candidate import Request
from precast.loader.resolve.choose import Accepted
from precast.loader.resolve.resolution import Resolution

_REMEMBERED = 4096


class ByProblem:
    """One decision, for any problem: made once, since programs use many sizes.

    Measurements decide only where the author's order would: among variants of one cache, for one target, of
    one kind, with the same outputs, that write their dtypes alike. ``resolution`` must have accepted some.
    """

    def __init__(self, resolution: Resolution) -> None:
        self.resolution = resolution
        first = resolution.accepted[0]
        self._cache = first.candidate.cache
        variants: dict[tuple[bytes, Target], Accepted] = {}
        for accepted in resolution.accepted:
            variants.setdefault(accepted.candidate.variant, accepted)  # of several, the one for this GPU
        peers = (a for a in variants.values() if _decided_by_author(a) == _decided_by_author(first))
        self._peers = {a.candidate.artifact.key: a for a in peers}
        self._estimates: dict[frozenset[str], Estimate] = {}

    def decide(self, problem: Mapping[str, int]) -> Resolution:
        """The decision, with the variant that is fastest by measurements first, and the measured time."""
        resolution = replace(self.resolution, request=replace(self.resolution.request, problem=problem))
        op = resolution.accepted[0].candidate.source.op
        try:
            tables = op.tables
            with op.reading_measurements():
                choice = self._estimate(tables, problem).fastest(problem)
        except FormatError as error:
            return _noting(resolution, f"the measurements of cache {self._cache!r} were left out: {error}")
        if choice is None:
            axes = ", ".join(sorted(problem)) or "nothing"
            return _noting(
                resolution,
                f"cache {self._cache!r} has no measurement for a problem of {axes} on such a GPU, so the author's"
                " order decided: measure with 'precast bench', add with 'precast tune apply'",
            )
        best = self._peers[choice.key]
        rest = tuple(a for a in resolution.accepted if a is not best)
        return replace(resolution, accepted=(best, *rest), measured=choice)

    def _estimate(self, tables: tuple[Table, ...], problem: Mapping[str, int]) -> Estimate:
        axes = frozenset(problem)
        estimate = self._estimates.get(axes)
        if estimate is None:
            machine = self.resolution.machine
            gpu = machine.device.name if machine.device else None
            estimate = Estimate(tables, axes, self._peers, gpu=gpu, capability=machine.capability)
            self._estimates[axes] = estimate
        return estimate


class Decisions:
    """Decisions by request without its problem: programs use one config with many sizes."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], ByProblem] = {}

    def of(self, request: Request, machine: Machine, resolve: Callable[[], Resolution]) -> Resolution:
        """The decision for a request with a problem; ``resolve`` decides about it without one.

        Its machine is the first one for which the decision was made: its ``query`` has recorded the facts it used.
        """
        assert request.problem is not None
        items = tuple(request.config.items())
        key = (request.op, request.verified, machine, items, tuple([type(value) for _, value in items]))
        try:
            return self._made[key].decide(request.problem)
        except (KeyError, TypeError):  # a new request, or a list in the config
            pass
        resolution = resolve()
        if not resolution.accepted:
            return resolution
        decision = ByProblem(resolution)
        if len(self._made) < _REMEMBERED:
            with contextlib.suppress(TypeError):
                self._made[key] = decision
        return decision.decide(request.problem)


def _decided_by_author(accepted: Accepted) -> tuple[Any, ...]:
    candidate = accepted.candidate
    kind = candidate.artifact.kind
    return accepted.outputs, accepted.literal, candidate.target, candidate.source.precedence, kind


def _noting(resolution: Resolution, note: str) -> Resolution:
    return replace(resolution, notes=(*resolution.notes, note))
