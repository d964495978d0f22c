"""Verifying: a kernel is launched in many ways, between guards, and what it writes is compared with the reference."""

from __future__ import annotations

import contextlib
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from precast.kernels.authoring.declare import Declaration, Problem
from precast.kernels.authoring.errors import DeclarationError, SourceError, described
from precast.loader.contract.format.config import Config
from precast.measure.checks.check import Check, sizes
from precast.measure.checks.passing import Passing
from precast.measure.checks.runs import Launch, Runs
from precast.measure.checks.scenarios import FIRST, Schedule, scenarios
from precast.measure.checks.together import together

_MISDECLARED = (DeclarationError, SourceError)  # nothing of the kernel can be verified until they are corrected
_NO_MEMORY = "the GPU has too little free memory for its tensors and its reference"


def verify(
    launch: Launch,
    declaration: Declaration,
    config: Config,
    *,
    device: Any = "cuda",
    seed: int = 0,
    problem: Problem | None = None,
    huge: bool | None = None,
    most: int | None = None,
    schedules: Sequence[Schedule] | None = None,
) -> Iterator[Check]:
    """Launch every problem that the declaration names in every scenario, and check every argument.

    Parameters
    ----------
    launch, declaration, config
        What to call, what its author states about it, and the full config that it was compiled for.
    device
        Where to run it; on ``"cpu"``, where a Python function stands for a kernel, nothing runs on other streams.
    seed
        The seed of the inputs. What a problem's inputs are depends on it and on the problem alone.
    problem
        The one problem to launch, in place of the declaration's.
    huge
        Whether to launch the declaration's ``large`` problem; by default, on a GPU.
    most
        How many elements a problem may have: a larger one is left out.
    schedules
        The orders in which an emulated kernel is run, whose ``under`` gives it in each of them.

    An output that is None is skipped.
    """
    if not declaration.verifiable:
        raise unverifiable(declaration)
    import torch

    launch, declaration = together(launch, declaration, config)
    if declaration.problems is None:
        raise unverifiable(declaration)
    gpu = torch.device(device).type == "cuda"
    runner = _OneProblem(launch, declaration, config, device, gpu, seed, most, schedules)
    large = dict(declaration.large(config)) if declaration.large else None
    if problem is not None:
        yield from runner.checks(problem, huge=dict(problem) == large)
        return
    for each in declaration.problems(config):
        yield from runner.checks(each)
    if large is not None:
        if most is not None:
            yield _left_out(large, _too_large(most))
        elif gpu if huge is None else huge:
            yield from runner.checks(large, huge=True)
        else:
            yield _left_out(large, "it was not requested" if gpu else "it has too many elements for the CPU")


def unverifiable(declaration: Declaration) -> DeclarationError:
    """What a kernel lacks that cannot be verified."""
    return DeclarationError(
        f"{declaration.op} cannot be verified: give its @kernel problems, inputs, outputs and a reference"
    )


def _too_large(most: int) -> str:
    return f"it has more than {most} elements, the limit of this run"


def _left_out(problem: Problem, reason: str) -> Check:
    return Check(problem=problem, output="", error=0.0, scenario=FIRST.name, left_out=reason)


def _broken(problem: Problem, error: Exception, scenario: str = "", elements: int = 0) -> Check:
    fault = f"it raised {described(error)}"
    return Check(
        problem=problem, output="", error=math.inf, fault=fault, scenario=scenario, elements=elements, broke=True
    )


@dataclass(frozen=True, slots=True)
class _OneProblem:
    """Makes the runs of one problem after the other."""

    launch: Launch
    declaration: Declaration
    config: Config
    device: Any
    gpu: bool
    seed: int
    most: int | None
    schedules: Sequence[Schedule] | None

    def checks(self, problem: Problem, *, huge: bool = False) -> Iterator[Check]:
        """Every run of a problem, up to one that ends with an error, which costs this problem alone.

        A huge problem is left out where it does not fit the memory of the GPU.
        """
        import torch

        if huge and self.gpu:
            torch.cuda.empty_cache()
        try:
            yield from self._runs(problem, huge)
        except torch.cuda.OutOfMemoryError as error:
            yield _left_out(problem, _NO_MEMORY) if huge and self.gpu else _broken(problem, error)
        except _MISDECLARED:
            raise
        except Exception as error:  # of the author's functions
            yield _broken(problem, error)
        if huge and self.gpu:
            with contextlib.suppress(RuntimeError):
                torch.cuda.empty_cache()

    def _runs(self, problem: Problem, huge: bool) -> Iterator[Check]:
        import torch

        assert self.declaration.inputs
        seed = (self.seed + zlib.crc32(sizes(problem).encode())) % (1 << 62)  # authors add a little to it
        values = self.declaration.inputs(self.config, problem, device=self.device, seed=seed)
        if self.most is not None and sum(v.numel() for v in values.values() if hasattr(v, "numel")) > self.most:
            yield _left_out(problem, _too_large(self.most))
            return
        if self.gpu and isinstance(self.launch, Passing) and (reason := self.launch.obstacle(values)):
            yield _left_out(problem, reason)
            return
        runs = Runs(self.launch, self.declaration, self.config, self.device, problem, values)
        empty = all(values[name].numel() == 0 for name in runs.outputs)
        planned = scenarios(
            0 if empty else runs.elements,
            gpu=self.gpu,
            deterministic=self.declaration.deterministic,
            special_values=self.declaration.special_values,
            aligned=bool(runs.alignment),
            huge=huge,
            schedules=self.schedules,
        )
        for scenario in planned:
            if scenario.left_out:
                yield runs.check("", scenario, left_out=scenario.left_out)
                continue
            try:
                yield from runs.run(scenario)
            except _MISDECLARED:
                raise
            except Exception as error:
                if huge and isinstance(error, torch.cuda.OutOfMemoryError):
                    raise
                yield _broken(problem, error, scenario.name, runs.elements)
                return
