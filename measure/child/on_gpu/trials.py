"""Trials: times candidates that compute the same on one problem, with the same inputs.

The inputs of a problem are made once, and kept until another problem is requested. A candidate has its own inputs if it
has a workspace, whose size may depend on its tuned keys, or if it refuses those of another candidate.
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from precast.kernels.authoring.declare import Declaration, Tolerance
from precast.kernels.authoring.errors import DeclarationError
from precast.loader.contract.format.config import Config, canonical, to_json
from precast.measure.checks.compare import compare
from precast.measure.launching.cases import Case, bound, filled
from precast.measure.timing import timer

# A declaration's tolerance is for the sizes of its problems; tuned problems may be larger, and so may their rounding
# errors. Wrong values differ by far more, and 'precast verify' checks precisely.
SLACK = 4.0
_SEED = 0
_SMI = ("nvidia-smi", "--query-gpu=clocks.sm,clocks.mem", "--format=csv,noheader,nounits")
_SMI_SECONDS = 20.0


class Wrong(Exception):
    """A candidate wrote wrong values."""


@dataclass(slots=True)
class _Held:
    """The inputs of a problem, the initial values of outputs in place, and the expected outputs once they are known."""

    values: dict[str, Any]
    config: bytes
    first: dict[str, Any] = field(default_factory=dict)
    expected: Mapping[str, Any] | None = None
    by: str = "the reference"


class Trials:
    """Times candidates. The inputs are made on ``device``."""

    def __init__(self, device: Any = "cuda") -> None:
        self._device = device
        self._key: object = None
        self._held: _Held | None = None
        self._run: Callable[[], Any] | None = None

    def time(
        self,
        case: Case,
        group: object,
        problem: Mapping[str, int],
        *,
        launches: int,
        check: bool,
        enough: float = 0.0,
    ) -> float:
        """The median microseconds of a launch. ``group`` is the same for all candidates that compute the same.

        With ``check``, its outputs are compared first; Wrong if they differ. Any other error comes from the kernel. If
        one launch takes more than ``enough``, unless that is 0, its time is the result.
        """
        declaration, config = case.declaration, case.artifact.config
        if declaration.inputs is None:
            raise DeclarationError(f"{case.op} cannot be measured: give its @kernel inputs")
        if declaration.passes is not None:
            raise DeclarationError(f"{case.op} takes addresses of other GPUs: it is not measured alone; leave it out")
        if declaration.ranks is not None:
            raise DeclarationError(f"{case.op} waits for other ranks: it cannot be measured alone; leave it out")
        mine = canonical({name: to_json(value) for name, value in config.items()})
        key = (group, tuple(sorted(problem.items())), mine if declaration.workspace else b"")
        if key != self._key:
            self._forget()
            self._held = self._make(declaration, config, problem, mine, check)
            self._key = key
        assert self._held is not None
        try:
            return self._timed(case, self._held, launches, check, enough)
        except Wrong:
            raise
        except Exception:
            if self._held.config == mine:
                raise
            held = self._make(declaration, config, problem, mine, check)
            held.expected, held.by = self._held.expected, self._held.by
            return self._timed(case, held, launches, check, enough)

    def clocks(self) -> dict[str, int]:
        """The clocks of the GPU in MHz while the last candidate is launched repeatedly; none if they are unknown."""
        if self._run is None:
            return {}
        try:
            import torch

            uuid = getattr(torch.cuda.get_device_properties(self._device), "uuid", None)
            words = [*_SMI, *([f"--id=GPU-{uuid}"] if uuid else [])]
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                while process.poll() is None:
                    for _ in range(50):
                        self._run()
                    torch.cuda.synchronize(self._device)
                output = process.stdout.read() if process.stdout else ""
            sm, memory = (int(number) for number in output.splitlines()[0].split(","))
        except (OSError, ValueError, IndexError, RuntimeError, AssertionError):
            return {}
        return {"sm_mhz": sm, "memory_mhz": memory}

    def _timed(self, case: Case, held: _Held, launches: int, check: bool, enough: float) -> float:
        run = bound(case.kernel, held.values)
        if check:
            self._check(case, held, run)
        self._run = run
        if enough and (once := timer.once(run, self._device)) > enough:
            return once
        return statistics.median(timer.cold([run], self._device, launches=launches)[0])

    def _forget(self) -> None:
        """Free the memory of the last problem before that of the next is taken."""
        self._held = self._run = self._key = None
        if self._on_gpu:
            import torch

            torch.cuda.empty_cache()

    def _make(
        self, declaration: Declaration, config: Config, problem: Mapping[str, int], mine: bytes, check: bool
    ) -> _Held:
        assert declaration.inputs
        whole = filled(problem, declaration.problems(config)) if declaration.problems else problem
        values = declaration.inputs(config, whole, device=self._device, seed=_SEED)
        held = _Held(values, mine)
        if check and declaration.outputs:
            held.first = {name: values[name].clone() for name in declaration.in_place if values.get(name) is not None}
            held.expected = self._reference(declaration, config, values)
        return held

    def _reference(self, declaration: Declaration, config: Config, values: Mapping[str, Any]) -> dict[str, Any] | None:
        """The outputs of the declared reference; None if there is no reference, or not enough memory."""
        if declaration.reference is None:
            return None
        import torch

        try:
            return declaration.reference(config, values)
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            return None

    def _check(self, case: Case, held: _Held, run: Callable[[], Any]) -> None:
        """Launch once, and compare the outputs, with those of the first candidate if there is no reference."""
        declaration = case.declaration
        names = [name for name in declaration.outputs if hasattr(held.values.get(name), "shape")]
        if not names:
            return
        import torch

        for name, value in held.first.items():
            held.values[name].copy_(value)
        for name in (n for n in names if n not in declaration.in_place):
            if held.values[name].dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                held.values[name].fill_(float("nan"))  # to detect values that are not written
        run()
        if self._on_gpu:
            torch.cuda.synchronize(self._device)
        if held.expected is None:
            held.expected = {name: held.values[name].clone() for name in names}
            held.by = f"{case}"
            return
        tolerance = declaration.tolerance(case.artifact.config) if declaration.tolerance else None
        allowed = tolerance and Tolerance(tolerance.rtol * SLACK, tolerance.atol * SLACK, tolerance.ulps * SLACK)
        for name in names:
            if held.expected.get(name) is None:
                continue
            difference = compare(held.values[name], held.expected[name], allowed)
            if difference.error > 1.0:
                raise Wrong(f"{name} differs from {held.by}: {difference.fault}")

    @property
    def _on_gpu(self) -> bool:
        return str(self._device).startswith("cuda")
