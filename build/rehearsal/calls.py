"""Calls of an object, drawn and made, and how a host program differs from what it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.build.errors import PlanError
from precast.build.link import elf
from precast.build.link.toolchain import Toolchain
from precast.build.rehearsal.compare import difference
from precast.build.rehearsal.draw import LARGEST, Draw
from precast.build.rehearsal.recorder import Recorded, RecordedLaunch, Recorder
from precast.loader.contract.format.program.call_leaves import leaves_of
from precast.loader.contract.format.program.expression import Expression, leaves_in
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.contract.format.signature import Signature

_FEW = 100  # one in so many calls


@dataclass(frozen=True, slots=True)
class Call:
    """One call: what was passed, and what the object did with it."""

    arguments: list[Any]
    leaves: Mapping[str, int]
    recorded: Recorded

    def launch_of(self, kernel: str) -> RecordedLaunch | None:
        return next((launch for launch in self.recorded.launches if launch.kernel == kernel), None)


class Caller:
    """Makes calls of one object. ``parameters`` has each kernel of its device code with the sizes of its parameters."""

    def __init__(
        self,
        toolchain: Toolchain,
        obj: bytes,
        symbol: str,
        signature: Signature,
        cubin: bytes,
        *,
        only_launches: bool = True,
    ) -> None:
        self.symbol, self.signature, self._only_launches = symbol, signature, only_launches
        self._parts = (toolchain, obj, symbol, cubin)
        self.parameters = {k: tuple(size for _, size in elf.kernel_parameters(cubin, k)) for k in elf.kernels(cubin)}

    def drawn(
        self, seed: str, count: int, *, tame: bool, near: HostProgram | None = None, most: int = LARGEST
    ) -> list[Call]:
        """So many calls, made in a process of their own; many of them near the constants of a program. ``most`` is the
        largest extent."""
        sizes, spans = _edges(near) if near else ((), ())
        draw = Draw(self.signature, f"{self.symbol} {seed}", tame=tame, near=sizes, spans=spans, most=most)
        arguments = [draw.call() for _ in range(count)]
        with Recorder(*self._parts, only_launches=self._only_launches) as recorder:
            answers = recorder.ask(arguments)
        for passed, recorded in zip(arguments, answers, strict=True):
            if recorded.error:
                raise PlanError(f"{self.symbol}: the object refuses {passed}: {': '.join(recorded.error)}; report this")
        return _undisturbed(
            [
                Call(passed, leaves_of(self.signature, passed), recorded)
                for passed, recorded in zip(arguments, answers, strict=True)
            ]
        )

    def difference(self, program: HostProgram, calls: Sequence[Call]) -> str | None:
        """The first difference between a program and what the object did."""
        differences = (difference(program, call.leaves, call.recorded, call.arguments) for call in calls)
        return next(filter(None, differences), None)


def _undisturbed(calls: list[Call]) -> list[Call]:
    """The calls without the few in which other bytes than usual look as if they were set: a signal, which runs on the
    stack too, may have come between. More than a few are the object's own doing, and stay."""
    seen = Counter((launch.kernel, launch.written) for call in calls for launch in call.recorded.launches)
    usual = {kernel: max(n for (k, _), n in seen.items() if k == kernel) for kernel, _ in seen}
    odd = {key for key, number in seen.items() if number * _FEW < usual[key[0]]}
    return [call for call in calls if odd.isdisjoint((run.kernel, run.written) for run in call.recorded.launches)]


def _edges(program: HostProgram) -> tuple[tuple[int, ...], tuple[tuple[str, int], ...]]:
    """The constants of a program at which it may go wrong, and those of spans with the tensor that has it."""
    sizes: dict[int, None] = {}
    spans: dict[tuple[str, int], None] = {}
    pending: list[Expression] = []
    for step in program.steps:
        pending += [*step.expressions, *(w.value for p in step.parameters for w in p.words)]
    while pending:
        expression = pending.pop()
        if isinstance(expression, tuple):
            function, left, right = expression
            pending += [left, right]
            if function == "at_least" and (span := next((x for x in leaves_in(left) if x.endswith(".span")), None)):
                spans[span.removesuffix(".span"), right] = None
            elif function in ("ceil_div", "floor_div", "at_least", "min") and isinstance(right, int) and right > 1:
                sizes[right] = None
    return tuple(sizes), tuple(spans)
