"""Runs: what is launched and checked for each scenario of one problem."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from precast.kernels.authoring.declare import Declaration, Problem
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.signature import Signature
from precast.measure.checks.check import Check
from precast.measure.checks.compare import compare, differing
from precast.measure.checks.guarded import Guarded, aligned_as_on_gpu, enclose, fill
from precast.measure.checks.scenarios import Scenario, with_special
from precast.measure.launching.cases import bound

Launch = Callable[..., Any]
_AROUND = 0xFF  # what stands around the inputs


class Runs:
    """The runs of one problem. Inputs and workspace stay in their buffers, as a caller keeps them; outputs are new."""

    def __init__(
        self,
        launch: Launch,
        declaration: Declaration,
        config: Config,
        device: Any,
        problem: Problem,
        values: dict[str, Any],
    ) -> None:
        import torch

        self.launch, self.declaration, self.config, self.device = launch, declaration, config, device
        self.problem, self.values = problem, values
        self.tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        if torch.device(device).type == "cpu":
            self.tensors = aligned_as_on_gpu(self.tensors)
        self.outputs = [name for name in declaration.outputs if values[name] is not None]
        self.elements = sum(tensor.numel() for tensor in self.tensors.values())
        self.alignment = _alignment(launch, self.tensors)
        self.expected = self._reference(self.tensors)  # before any launch: it may change what it is given
        buffers = enclose(self.tensors, pattern=_AROUND)
        self.kept = [buffer for buffer in buffers if not set(buffer.views) & set(self.outputs)]
        written = {name for buffer in buffers if buffer not in self.kept for name in buffer.views}
        self.written = {name: self.tensors[name] for name in written}
        self.empty = [name for name in self.outputs if name not in declaration.in_place]
        self.first: dict[str, Any] = {}

    def run(self, scenario: Scenario) -> Iterator[Check]:
        """Launch once, and check every output, the guards of every tensor, and that inputs are as they were."""
        contents, expected = self.tensors, self.expected
        alternative: dict[str, Any] = {}
        if scenario.special:
            contents, expected = self._special(scenario.special)
        if scenario.special == "denormal":  # which a kernel may take as zeros
            _, alternative = self._special("zero")
        kept = self._placed(scenario, contents)
        alignment = self.alignment if scenario.least_alignment else None
        written = {name: contents[name] for name in self.written}
        new = enclose(written, pattern=scenario.pattern, empty=self.empty, alignment=alignment)
        views = {name: view for buffer in (*kept, *new) for name, view in buffer.views.items()}
        self._launch(scenario, views, contents)
        yield from self._outputs(scenario, views, expected, alternative)
        faults = dict(self._faults(kept, new, views, contents))
        for name, fault in faults.items():
            yield self.check(name, scenario, fault=fault)
        if faults or scenario.special:
            self._restore(views)
        if not self.first:
            self.first = {name: views[name] for name in self.outputs}

    def check(self, name: str, scenario: Scenario, *, error: float = 0.0, fault: str = "", left_out: str = "") -> Check:
        """The check of an argument after a run."""
        error = math.inf if fault and not error else error
        return Check(
            problem=self.problem,
            output=name,
            error=error,
            fault=fault,
            scenario=scenario.name,
            elements=self.elements,
            left_out=left_out,
        )

    def _reference(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        assert self.declaration.reference
        return self.declaration.reference(self.config, self._with(tensors))

    def _with(self, tensors: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments with other tensors: an author's own kind of mapping stays one."""
        copied = copy.copy(self.values)
        copied.update(tensors)
        return copied

    def _special(self, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tensors with special values in the inputs, and the reference for them."""
        workspace = {n: self.tensors[n] for n in self.declaration.workspace if n in self.tensors}
        contents = {**with_special(kind, self.tensors), **workspace}
        return contents, self._reference(contents)

    def _placed(self, scenario: Scenario, contents: Mapping[str, Any]) -> list[Guarded]:
        """The inputs and the workspace in their buffers, or in others at the least alignment."""
        if scenario.least_alignment:
            views = {name: view for buffer in self.kept for name, view in buffer.views.items()}
            return enclose(views, pattern=_AROUND, alignment=self.alignment)
        if scenario.special:
            for name, view in self._inputs(self.kept):
                fill(view, contents[name])
        return self.kept

    def _inputs(self, buffers: list[Guarded]) -> Iterator[tuple[str, Any]]:
        """What the kernel must not write."""
        for buffer in buffers:
            yield from ((name, view) for name, view in buffer.views.items() if name not in self.declaration.workspace)

    def _launch(self, scenario: Scenario, views: Mapping[str, Any], contents: Mapping[str, Any]) -> None:
        """Launch beside the scenario's other work. On a second stream, inputs arrive late: until then they are NaN."""
        if scenario.way == "alone":
            launch = self.launch if scenario.schedule is None else self.launch.under(scenario.schedule)  # type: ignore[attr-defined]
            bound(launch, self._with(views))()
            return
        import torch

        from precast.measure.checks.streams import other_work, second_stream

        if scenario.way == "beside other work":
            with other_work(self.device):
                bound(self.launch, self._with(views))()
            return
        idle = {*self.declaration.workspace, *self.empty}
        late = {n: v for n, v in views.items() if n not in idle and v.dtype.is_floating_point}
        for view in late.values():
            fill(view, view.new_full((), math.nan).expand(view.shape))
        with second_stream(self.device):
            for name, view in late.items():
                fill(view, contents[name])
            # A kernel may be promised that some inputs are not of the launch before it: something else is.
            torch.zeros(1, device=self.device)
            bound(self.launch, self._with(views))()

    def _outputs(
        self, scenario: Scenario, views: Mapping[str, Any], expected: Mapping[str, Any], alternative: Mapping[str, Any]
    ) -> Iterator[Check]:
        tolerance = self.declaration.tolerance(self.config) if self.declaration.tolerance else None
        for name in self.outputs:
            difference = compare(views[name], expected[name], tolerance, alternative.get(name))
            fault = difference.fault
            compared = scenario.repeated and (scenario.note or not fault)
            if compared and (others := differing(views[name], self.first[name])):
                fault = fault or f"other bits than in the first run: {others}"
                fault += f"; {scenario.note}" if scenario.note else ""
            yield self.check(name, scenario, error=difference.error, fault=fault)

    def _faults(
        self, kept: list[Guarded], new: list[Guarded], views: Mapping[str, Any], contents: Mapping[str, Any]
    ) -> Iterator[tuple[str, str]]:
        """What was touched that must not be, by the name of the argument."""
        for buffer in (*kept, *new):
            if fault := buffer.stray():
                yield next(iter(buffer.views)), fault
        for name, view in self._inputs(kept):
            if others := differing(view, contents[name]):
                yield name, f"an input was changed: {others}; name what is written in outputs"

    def _restore(self, views: Mapping[str, Any]) -> None:
        """New buffers, in which inputs are as they were, and the workspace as it was left."""
        names = [name for buffer in self.kept for name in buffer.views]
        enclosed = {n: views[n] if n in self.declaration.workspace else self.tensors[n] for n in names}
        self.kept = enclose(enclosed, pattern=_AROUND)


def _alignment(launch: Launch, tensors: Mapping[str, Any]) -> dict[str, int]:
    """How tensors must be aligned, by the signature of what is launched; nothing where it has none."""
    signature = getattr(launch, "signature", None)
    arguments = signature.passed if isinstance(signature, Signature) else ()
    declared = {a.name: a.alignment for a in arguments if a.kind == "tensor" and a.name in tensors}
    return {name: to for name, to in declared.items() if to and to % tensors[name].element_size() == 0}
