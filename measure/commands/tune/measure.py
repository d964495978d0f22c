"""Time the candidates of manifests against each other on this GPU.

Variants that compute the same are timed on each problem of the manifests. The tuning file is written after each
problem, and a second run continues where the first one stopped. No compiler is needed. A candidate that crashes,
hangs, refuses a problem or writes wrong values is reported and skipped. Exit status 1 means that nothing was
measured.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result
from precast.cli.shared.progress import Progress
from precast.measure.commands.shared import selection
from precast.measure.commands.shared.contests import CacheOption, OutputFile, Selection
from precast.measure.commands.shared.values import problem_sizes, problem_text

if TYPE_CHECKING:
    from precast.kernels.authoring.declare import Problem
    from precast.measure.tuning.tuner import Round, Tuner

EXAMPLES = ("precast tune measure manifest.yaml --cache cache -o tuning/gemm-h200.json",)


def command(
    manifests: selection.Manifests,
    cache: CacheOption,
    output: OutputFile = None,
    op: selection.Op = None,
    where: selection.Where = None,
    problem: selection.Problems = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Time limit for one timing, in seconds.", metavar="SEC")
    ] = 60.0,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare what each candidate writes with the reference.")
    ] = True,
    as_json: options.Json = False,
) -> None:
    selection = Selection.read(manifests, cache, op, where)
    path = selection.tuning_file("--output", output)
    tuner = _measure(selection, path, [problem_sizes(text) for text in problem or ()], timeout, check)
    clocks = f" ({tuner.gpu.sm_mhz} MHz, memory {tuner.gpu.memory_mhz} MHz)" if tuner.gpu.sm_mhz else ""
    left_out = [str(candidate) for candidate in tuner.left_out]
    lines = [f"left out: {text}" for text in left_out]
    if not tuner.measured and not tuner.held and not left_out:
        lines.append(
            f"{selection.cache.path} has no two candidates that compute the same here: build several to compare"
        )
    lines.append(
        f"{count(tuner.measured, 'time')} measured on {tuner.gpu.name}{clocks}, {tuner.held} measured before; "
        f"{path} has {count(tuner.file.count, 'time')}"
    )
    data = {
        "file": str(path),
        "gpu": tuner.gpu.to_json(),
        "measured": tuner.measured,
        "known": tuner.held,
        "times": tuner.file.count,
        "left_out": left_out,
    }
    print_result(data, "\n".join(lines), as_json)
    if not tuner.measured and not tuner.held:
        raise typer.Exit(1)


def _measure(selection: Selection, path: Path, problems: list[Problem], seconds: float, check: bool) -> Tuner:
    """The tuner, after it has measured every contest."""
    from precast.build.measurements.tuning_file import Gpu
    from precast.measure.launching.cases import obstacle, this_device, tiling
    from precast.measure.on_gpu.launches import Launches
    from precast.measure.tuning.tuner import Tuner
    from precast.measure.verification.evidence import where_and_when

    device, cache = this_device(), selection.cache
    facts = where_and_when(device, os.environ)
    with Progress() as progress, Launches(cache.path, seconds) as launches:
        progress.stage(f"opening the candidates for {device.name}")
        contests = selection.contests(
            lambda artifact: obstacle(artifact, device), lambda op, artifact: tiling(op, artifact, device)
        )
        contests = selection.with_problems(contests, problems)
        progress.total = sum(len(contest.problems) for contest in contests)

        def show(done: Round) -> None:
            text = "; ".join([str(done), *map(str, done.left_out)])
            progress.step(f"{done.contest} at {problem_text(done.problem)}", text, keep=bool(done.left_out))

        tuner = Tuner(
            path=path,
            gpu=Gpu(name=device.name, capability=device.capability, driver=facts["driver"], date=facts["date"]),
            timer=launches,
            keys={op: cache.op(op).keys for op in cache.index.ops},
            check=check,
            show=show,
        )
        try:
            tuner.run(contests)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{path} has what was measured; run this again to continue") from None
    return tuner
