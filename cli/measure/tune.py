"""Measure the candidates of manifests against each other on this GPU, or put measurements into a cache."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.measure.pruned import tell_pruned
from precast.cli.measure.tuned import put
from precast.cli.shared.output import count, emit, tell
from precast.cli.shared.progress import Progress

if TYPE_CHECKING:
    from precast.build.measurements.tuning_file import TuningFile
    from precast.build.plan.manifest import Manifest
    from precast.build.tuning.contest import Contest, Cut, Obstacle
    from precast.build.tuning.tuner import Round, Tuner
    from precast.kernels.authoring.declare import Problem
    from precast.loader.resolve.cache import Cache


def command(
    paths: Annotated[
        list[Path],
        typer.Argument(
            help="With --cache the manifests; else a cache, then files of measurements.",
            metavar="MANIFEST... | CACHE FILE...",
        ),
    ],
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Measure this cache, built from the manifests.", metavar="CACHE")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The tuning file; the one that the manifests name.", metavar="FILE"),
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option("--op", help="Measure this op only; may be repeated.", metavar="OP")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            help="Measure variants with this value, such as dtype=bfloat16; may be repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    problem: Annotated[
        list[str] | None,
        typer.Option("--problem", help="A problem in place of the manifests'; may be repeated.", metavar="SIZES"),
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds that one timing may take.", metavar="SEC")
    ] = 60.0,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare what each candidate writes with the reference.")
    ] = True,
    model: Annotated[
        str, typer.Option("--model", help="Measure nothing: work out times for this GPU, such as B200.", metavar="GPU")
    ] = "",
    prune: Annotated[
        bool, typer.Option("--prune", help="Measure nothing: say which candidates no measured problem needs.")
    ] = False,
    within: Annotated[
        float, typer.Option("--within", min=0, max=100, help="How near the best is near enough.", metavar="PERCENT")
    ] = 2.0,
    cover: Annotated[
        bool, typer.Option("--cover", help="With --prune, keep a small set that serves every problem.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure the candidates of manifests against each other on this GPU, or put measurements into a cache.

    With --cache, candidates that compute the same are timed on each problem of the manifests, and the tuning file is
    written after each problem: a second run goes on where the first has ended. No compiler is needed. A candidate that
    faults, hangs, refuses a problem or writes wrong values is told, and costs itself alone. Without --cache, files are
    put into a cache that is built. Exit status 1 means that nothing was measured.
    """
    from precast.build.plan.manifest import read_manifest
    from precast.cli.shared.sizes import sizes
    from precast.loader.resolve.cache import Cache

    options = {"-o": output, "--op": op, "--where": where, "--problem": problem}
    measuring = {**options, "--model": model, "--prune": prune, "--cover": cover}
    if cache is None:
        if given := [name for name, value in measuring.items() if value]:
            raise typer.BadParameter(f"{given[0]} is for measuring: name the cache with --cache, and manifests")
        put(paths, as_json)
        return
    if cover and not prune:
        raise typer.BadParameter("--cover goes with --prune")
    if model and prune:
        raise typer.BadParameter("--model and --prune exclude each other")
    manifests = [read_manifest(path) for path in paths]
    file, opened = _output(output, manifests), Cache(cache)
    if prune:
        found = _contests(opened, manifests, op or (), where or (), lambda artifact: "")
        tell_pruned(opened, manifests, found, file, within=within / 100, smallest=cover, as_json=as_json)
        return
    wanted = [sizes(text) for text in problem or ()]
    if model:
        _model(opened, manifests, file, op or (), where or (), wanted, model, as_json)
    else:
        _measure(opened, manifests, file, op or (), where or (), wanted, timeout, check, as_json)


def _contests(
    cache: Cache,
    manifests: list[Manifest],
    ops: Sequence[str],
    where: Sequence[str],
    obstacle: Obstacle,
    cut: Cut = lambda op, artifact: None,
) -> list[Contest]:
    """The contests that ``--op`` and ``--where`` leave, with several candidates each."""
    from precast.build.tuning.contest import contests
    from precast.cli.shared.where import chosen
    from precast.kernels.authoring.launching.cases import launchable, ops_of

    wanted = {artifact.key for _, artifact in chosen(cache, launchable(cache, ops_of(cache, ops)), where)}
    may = lambda one: obstacle(one) if one.key in wanted else "it was not asked for"  # noqa: E731
    found = contests(cache, manifests, may, cut)
    return [one for one in found if len(one.contestants) > 1]


def _output(given: Path | None, manifests: Sequence[Manifest]) -> Path:
    """The tuning file: the one that was given, or the only one that the manifests name."""
    named = sorted({one.path for manifest in manifests for one in manifest.tuning})
    if given is None and len(named) != 1:
        raise typer.BadParameter(f"the manifests name {count(len(named), 'file')} under 'tuning': give one with -o")
    path = given or named[0]
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"{path}: name a file in a folder that exists")
    return path


def _measure(
    cache: Cache,
    manifests: list[Manifest],
    path: Path,
    ops: Sequence[str],
    where: Sequence[str],
    problems: Sequence[Problem],
    seconds: float,
    check: bool,
    as_json: bool,
) -> None:
    from precast.build.measurements.tuning_file import Gpu
    from precast.build.on_gpu.launches import Launches
    from precast.build.tuning.tuner import Tuner
    from precast.cli.measure.evidence import where_and_when
    from precast.kernels.authoring.launching.cases import obstacle, this_device, tiling

    device = this_device()
    facts = where_and_when(device, os.environ)
    gpu = Gpu(name=device.name, capability=device.capability, driver=facts["driver"], date=facts["date"])
    with Progress() as progress, Launches(cache.path, seconds) as launches:
        progress.stage(f"opening the candidates for {device.name}")
        cut = lambda op, artifact: tiling(op, artifact, device)  # noqa: E731
        found = _contests(cache, manifests, ops, where, lambda artifact: obstacle(artifact, device), cut)
        found = _with_problems(cache, found, problems)
        progress.total = sum(len(one.problems) for one in found)
        tuner = Tuner(
            path=path,
            gpu=gpu,
            timer=launches,
            keys={op: cache.op(op).keys for op in cache.index.ops},
            check=check,
        )

        def show(done: Round) -> None:
            text = "; ".join([str(done), *map(str, done.left_out)])
            progress.step(f"{done.contest} at {shown(done.problem)}", text, keep=bool(done.left_out))

        tuner.show = show
        try:
            file = tuner.run(found)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{path} has what was measured; run this again to go on") from None
    _tell(tuner, file, path, as_json)


def _model(
    cache: Cache,
    manifests: list[Manifest],
    path: Path,
    ops: Sequence[str],
    where: Sequence[str],
    problems: Sequence[Problem],
    gpu: str,
    as_json: bool,
) -> None:
    from precast.build.tuning.model import Model
    from precast.cli.measure.modelled import tell_modelled

    made = Model.of(gpu)
    runs = made.gpu.capability
    foreign = lambda artifact: "" if artifact.target.runs_on(runs) else f"built for {artifact.target}"  # noqa: E731
    found = _contests(cache, manifests, ops, where, foreign)  # what the kernels declare are no sizes of a service
    found = _with_problems(cache, found, problems) if problems else found
    tell_modelled(cache, found, path, made, as_json)


def _with_problems(cache: Cache, found: Sequence[Contest], given: Sequence[Problem]) -> list[Contest]:
    """Contests with the problems that were given, else with their entries', else with those of their declaration.

    One whose kernel does not know a size is told, and left out.
    """
    from precast.build.tuning.contest import with_problems
    from precast.loader.errors import PrecastError

    ready = []
    for one in found:
        try:
            ready.append(with_problems(one, _problems(cache, one, given or one.problems)))
        except PrecastError as error:
            tell(f"left out: {one}: {error}")
    return ready


def _problems(cache: Cache, contest: Contest, given: Sequence[Problem]) -> Sequence[Problem]:
    from precast.kernels.authoring.launching.cases import declaration_for
    from precast.kernels.authoring.timing.bench import benched
    from precast.loader.contract.format.config import suggest
    from precast.loader.errors import ConfigError

    key = contest.contestants[0].key
    artifact = next(one for one in cache.op(contest.op).artifacts if one.key == key)
    declaration = declaration_for(contest.op, artifact)
    if declaration.problems is None and given:
        return given
    declared = benched(declaration, artifact.config)
    known = sorted({name for problem in declared for name in problem})
    for name in (name for problem in given for name in problem):
        if name not in known:
            raise ConfigError(f"its problems have no size {name!r}{suggest(name, known)}")
    return given or declared


def shown(problem: Problem) -> str:
    """A problem in a line of progress.

    >>> shown({"m": 16, "n": 4096})
    'm=16 n=4096'
    """
    return " ".join(f"{name}={value}" for name, value in problem.items())


def _tell(tuner: Tuner, file: TuningFile, path: Path, as_json: bool) -> None:
    """Say what was measured, and exit with status 1 where nothing was, and nothing was known."""
    gpu = tuner.gpu
    clocks = f" ({gpu.sm_mhz} MHz, memory {gpu.memory_mhz} MHz)" if gpu.sm_mhz else ""
    lines = [f"left out: {one}" for one in tuner.left_out]
    lines.append(
        f"{count(tuner.measured, 'time')} measured on {gpu.name}{clocks}, {tuner.held} known: {path} has {file.count}"
    )
    data = {
        "file": str(path),
        "gpu": gpu.to_json(),
        "measured": tuner.measured,
        "known": tuner.held,
        "times": file.count,
        "left_out": [str(one) for one in tuner.left_out],
    }
    emit(data, "\n".join(lines), as_json)
    if not tuner.measured and not tuner.held:
        raise typer.Exit(1)
