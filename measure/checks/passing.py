"""Passing: a kernel whose arguments are made of what ``inputs`` makes, such as addresses."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from precast.kernels.authoring.composition import Multicast, Window
from precast.kernels.authoring.declare import Passes
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.signature import Signature
from precast.measure.launching.cases import bound


@dataclass(frozen=True, slots=True)
class Passing:
    """Launches a kernel with what its declaration's ``passes`` makes of the tensors.

    >>> def kernel(x, table): print(x, table)
    >>> Passing(kernel, lambda config, values: {"table": sum(values["x"])}, {})(x=[1, 2])
    [1, 2] 3
    """

    launch: Callable[..., Any]
    passes: Passes
    config: Config
    written: frozenset[str] = frozenset()

    @property
    def signature(self) -> Signature | None:
        """The arguments of the kernel."""
        return getattr(self.launch, "signature", None)

    def __call__(self, **values: Any) -> None:
        """Launch it."""
        self.bind(values)()

    def under(self, schedule: Any) -> Passing:
        """The same with an emulated kernel in another order."""
        return replace(self, launch=self.launch.under(schedule))  # type: ignore[attr-defined]

    def bind(self, values: Mapping[str, Any]) -> Callable[[], Any]:
        """The call with what ``inputs`` made."""
        calls = [{**values, **each} for each in self._calls(values)]
        together = getattr(self.launch, "together", None)
        if together is not None:  # emulated: all these tensors may be reached through addresses
            return functools.partial(together, calls, values, self.written)
        return bound(self.launch, calls[0])

    def obstacle(self, values: Mapping[str, Any]) -> str:
        """Why one GPU cannot run it; empty where it can."""
        calls = self._calls(values)
        if len(calls) > 1:
            return "each rank has a kernel of its own, on a GPU of its own: use --emulate"
        kinds = {type(value) for value in calls[0].values()}
        if Multicast in kinds:
            return "it reaches several GPUs through multicast memory: use --emulate"
        return "only a part of an argument is there: use --emulate" if Window in kinds else ""

    def _calls(self, values: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """What is passed beside the tensors, for each rank that is launched."""
        passed = self.passes(self.config, values)
        return [passed] if isinstance(passed, Mapping) else passed
