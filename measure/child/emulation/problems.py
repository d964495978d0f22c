"""Which problems of a kernel are emulated, and how: the smallest first, until they have taken enough."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from precast.kernels.authoring.declare import Declaration, Problem
from precast.loader.contract.format.config import Config
from precast.measure.checks.check import Check
from precast.measure.checks.scenarios import FIRST, Schedule
from precast.measure.checks.verify import unverifiable, verify
from precast.measure.child.emulation.emulated_kernel import EmulatedKernel
from precast.measure.launching.cases import filled

OPERATIONS = 1024  # as many operations of a problem for each element that it may have
_FAR = 4
_LARGEST = 16  # times the limits: the smallest problem may be so large


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulated:
    """How a kernel is emulated.

    Parameters
    ----------
    schedules
        The random orders in which each problem is run, too.
    seed
        The seed of the inputs.
    problem
        The one problem to run.
    most
        How many elements a problem may have.
    budget
        How many warp instructions the problems of a kernel may take: those beyond are left out.
    """

    schedules: Sequence[Schedule]
    seed: int = 0
    problem: Problem | None = None
    most: int = 1 << 20
    budget: int = 1 << 25

    @classmethod
    def parse(cls, request: Mapping[str, Any]) -> Emulated:
        """Read a request of the parent."""
        return cls(
            schedules=[Schedule(seed, delay) for seed, delay in request["schedules"]],
            **{name: request[name] for name in ("seed", "problem", "most", "budget")},
        )


def emulate(kernel: EmulatedKernel, declaration: Declaration, config: Config, how: Emulated) -> Iterator[Check]:
    """The checks of the problems that are small enough; one that says why for each that is not."""
    if not declaration.verifiable or declaration.problems is None:
        raise unverifiable(declaration)
    declared = [dict(problem) for problem in declaration.problems(config)]
    if how.problem is not None:
        yield from _runs(kernel, declaration, config, filled(how.problem, declared), how, most=None)
        return
    if declaration.large is not None:
        yield _left_out(declaration.large(config), "too large: it has more elements than an emulation can run")
    ranked = sorted(declared, key=lambda problem: work(declaration, config, problem))
    too_many = math.inf  # the work of the smallest problem that has too many elements
    for number, problem in enumerate(ranked):
        times = 1 if number else _LARGEST  # something is emulated of every kernel, if it can be
        operations = work(declaration, config, problem)
        if operations > how.most * OPERATIONS * times:
            limit = how.most * OPERATIONS * times
            yield _left_out(problem, f"too large: {operations:.2g} operations, of at most {limit:.2g}")
        elif operations > _FAR * too_many:  # its inputs alone would take longer than everything before
            yield _left_out(problem, f"a problem with less than 1/{_FAR} of its work has more than {how.most} elements")
        elif kernel.spent.counts.instructions > how.budget:
            yield _left_out(problem, f"smaller problems took {how.budget} warp instructions, the limit of a variant")
        else:
            for check in _runs(kernel, declaration, config, problem, how, most=how.most * times):
                too_many = min(too_many, operations) if check.left_out and not check.elements else too_many
                yield check


def _runs(
    kernel: EmulatedKernel,
    declaration: Declaration,
    config: Config,
    problem: Problem,
    how: Emulated,
    *,
    most: int | None,
) -> Iterator[Check]:
    options = {"seed": how.seed, "problem": problem, "most": most, "schedules": how.schedules}
    for check in verify(kernel, declaration, config, device="cpu", **options):  # type: ignore[arg-type]
        if kernel.spent.limited and check.broke:
            kernel.spent.limited = False
            reason = f"too large: a launch takes more than {kernel.options.limit} warp instructions"
            check = replace(check, fault="", left_out=reason, error=0.0, broke=False)
        yield check


def work(declaration: Declaration, config: Config, problem: Problem) -> float:
    """How much a problem takes: its operations and the bytes that it moves, or the product of its sizes."""
    if declaration.cost is None:
        return math.prod(float(max(1, size)) for size in problem.values())
    cost = declaration.cost(config, problem)
    return float(cost.flops + cost.bytes)


def _left_out(problem: Problem, reason: str) -> Check:
    return Check(problem=problem, output="", error=0.0, scenario=FIRST.name, left_out=reason)
