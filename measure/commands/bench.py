"""Time every variant of a cache on this GPU, and compare it with other implementations and with the GPU's limits.

Without --problem, the problems are those that the kernels declare. Variants are launched in a separate process: one
that crashes, hangs or refuses a problem is reported and skipped. Exit status 1 means that nothing was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import check_output_file, count, print_message, print_result, table
from precast.cli.shared.progress import Progress
from precast.cli.shared.project import cache_or_project
from precast.measure.commands.shared import selection
from precast.measure.commands.shared.project_modules import import_from_project
from precast.measure.commands.shared.values import check_key_prefix, problem_sizes

if TYPE_CHECKING:
    from precast.loader.contract.format.tuning.tiling import Tiling
    from precast.loader.machine.driver import Device
    from precast.loader.resolve.cache import Cache
    from precast.measure.bench.report import Report
    from precast.measure.bench.rounds import Variant

_HEAD = (
    "kernel", "config", "problem", "cold us", "+-", "warm us", "host us", "GB/s", "TFLOP/s", "share", "peer", "ratio",
)  # fmt: skip
_NUMBERS = range(3, 10)  # the columns that are aligned to the right

EXAMPLES = (
    "precast bench cache -o times.json --svg roofline.svg",
    "precast bench cache --op gemm --where dtype=bf16 --problem m=8,n=4096,k=64",
    "precast bench cache --json > report.json",
)


def command(
    cache: options.CacheOrProject = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file for the times, for 'precast tune apply'.", metavar="FILE"),
    ] = None,
    op: selection.Op = None,
    where: selection.Where = None,
    key: selection.KeyPrefix = "",
    problem: selection.Problems = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=100, help="How many times each variant is timed.", metavar="N")
    ] = 3,
    peer: Annotated[
        bool, typer.Option("--peer/--no-peer", help="Also time other implementations of the same function.")
    ] = True,
    torch_compile: Annotated[
        bool, typer.Option("--torch-compile", help="Also time the torch implementations under 'torch.compile'.")
    ] = False,
    just_in_time: Annotated[
        bool, typer.Option("--just-in-time", help="Also time the call of the DSL's own object; needs the DSL.")
    ] = False,
    timeout: options.Timeout = 300.0,
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw the roofline into this file.", metavar="FILE")] = None,
    as_json: options.Json = False,
) -> None:
    from precast.loader.resolve.cache import Cache
    from precast.measure.launching.cases import ops_of, this_device

    problems = [problem_sizes(text) for text in problem or ()]
    check_key_prefix(key)
    check_output_file("--output", output)
    check_output_file("--svg", svg)
    if torch_compile and not peer:
        raise typer.BadParameter("--torch-compile compiles peers: leave out --no-peer")
    optional = {"peer": peer, "torch_compile": torch_compile, "just_in_time": just_in_time}
    extras = ["warm", "host", *(name for name, included in optional.items() if included)]
    path = cache_or_project(cache)
    import_from_project(path)
    opened = Cache(path)
    ops = ops_of(opened, op or ())
    try:
        device = this_device()
        report = _measure(opened, ops, device, problems, timeout, where or (), key, rounds, extras)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no measurements were written") from None
    if output is not None:
        output.write_bytes(report.measurements(_tilings(opened, report, device)).encode())
    if svg is not None:
        _draw(report, svg)
    print_result(report.to_json(), _text(report, path, output), as_json)
    if not as_json:
        for note in notes(report):
            print_message(f"note: {note}")
    if not report.rows:
        raise typer.Exit(1)


def _measure(
    cache: Cache,
    ops: Sequence[str],
    device: Device,
    problems: list[dict[str, int]],
    seconds: float,
    where: Sequence[str],
    key: str,
    times: int,
    extras: Sequence[str],
) -> Report:
    """The report of every selected artifact that this device runs."""
    from precast.cli.shared.artifacts import artifacts_where
    from precast.loader.errors import ConfigError
    from precast.measure.bench.rounds import name_of, rounds
    from precast.measure.launching.cases import launchable, obstacle
    from precast.measure.on_gpu.launches import Launches

    with Progress() as progress, Launches(cache.path, seconds) as launches:
        progress.stage(f"opening the artifacts of {count(len(ops), 'op')}")
        selected = artifacts_where(cache, ((o, a) for o, a in launchable(cache, ops) if a.key.startswith(key)), where)
        if key and not selected:
            raise ConfigError(f"no artifact of {', '.join(ops)} has a key that starts with {key}: see 'precast list'")
        reasons = {artifact.key: obstacle(artifact, device) for _, artifact in selected}
        fit: list[Variant] = [(o, a) for o, a in selected if not reasons[a.key]]
        progress.total = len(selected) + (times - 1) * len(fit)
        for name, artifact in selected:
            if reason := reasons[artifact.key]:
                progress.step(f"{name} for {artifact.target}", f"left out: {reason}")
        report = rounds(launches, fit, device, progress, problems=problems, count=times, extras=extras)
    left_out = tuple((name_of(o, a), f"left out: {reasons[a.key]}") for o, a in selected if reasons[a.key])
    return replace(report, left_out=(*left_out, *report.left_out))


def _tilings(cache: Cache, report: Report, device: Device) -> dict[str, Tiling]:
    """How the variants that were timed cut a problem on this device, by key, if their authors declare it."""
    from precast.measure.launching.cases import tiling

    timed = {row.key for row in report.rows}
    artifacts = ((op, artifact) for op in {row.op for row in report.rows} for artifact in cache.op(op).artifacts)
    tilings = {artifact.key: tiling(op, artifact, device) for op, artifact in artifacts if artifact.key in timed}
    return {key: tiling for key, tiling in tilings.items() if tiling is not None}


def _text(report: Report, cache: Path, output: Path | None) -> str:
    """The table, and a line with the number of times and the limits of the GPU."""
    into = f" in {output}: put them into the cache with 'precast tune apply {cache} {output}'" if output else ""
    most = ""
    if report.ceilings is not None:
        rates = [f"{name} {rate:.0f} TFLOP/s" for name, rate in sorted(report.ceilings.rates.items())]
        copy = f", a copy {report.ceilings.copy:.0f}" if report.ceilings.copy else ""
        most = f" ({', '.join([f'{report.ceilings.bandwidth:.0f} GB/s{copy}', *rates])})"
    last = f"{count(len(report.rows), 'time')} measured on {report.gpu}{most}{into}"
    if not report.rows:
        return last
    head, *cells = _aligned([_HEAD, *rows(report)])
    return f"{table(head, cells)}\n\n{last}"


def _aligned(cells: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    widths = [max(len(row[i]) for row in cells) if i in _NUMBERS else 0 for i in range(len(_HEAD))]
    return [tuple(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]


def rows(report: Report) -> list[tuple[str, ...]]:
    """The table; what was not measured is empty.

    ``share`` is the shortest possible time over the cold time, ``ratio`` that of the fastest peer over the cold time.
    """
    from precast.measure.bench.report import distinguishing

    cells: list[tuple[str, ...]] = []
    for (row, at), config in zip(report.standings(), distinguishing(report.rows), strict=True):
        timing, us = row.timing, row.timing.microseconds
        peer, taken = min(timing.peers.items(), key=lambda item: item[1], default=("", 0.0))
        host = f"{timing.host:.1f}" if timing.host else ""
        cells.append((
            f"{row.op} {row.key[:8]}",
            config,
            " ".join(f"{name}={size}" for name, size in timing.problem.items()),
            f"{us:.2f}",
            f"{timing.spread:.2f}",
            f"{timing.warm:.2f}" if timing.warm else "",
            f"{host} (just in time {timing.just_in_time:.1f})" if timing.just_in_time else host,
            f"{timing.bytes / us / 1e3:.0f}" if timing.bytes else "",
            f"{timing.flops / us / 1e6:.1f}" if timing.flops else "",
            f"{at.share:.3f}{' !' if at.note else ''}" if at else "",
            peer,
            f"{taken / us:.2f}" if taken else "",
        ))  # fmt: skip
    return cells


def notes(report: Report) -> list[str]:
    """Notes on the rows of the table, each once."""
    texts = list(report.notes)
    for row, at in report.standings():
        sizes = " ".join(f"{name}={size}" for name, size in row.timing.problem.items())
        if at is not None and at.note:
            texts.append(f"{row.op} {row.key[:8]} at {sizes}: a share of {at.share:.3f}: {at.note}")
        texts += [f"{row.op} {row.key[:8]}: {note}" for note in row.timing.notes]
    return list(dict.fromkeys(texts))


def _draw(report: Report, file: Path) -> None:
    from precast.measure.bench.picture import dots, picture

    if report.ceilings is None:
        print_message(f"{file} is not drawn: the limits of the GPU, which are its roof, are not known")
        return
    file.write_text(picture(dots(report), report.ceilings, f"{report.gpu}: kernels under the roofline"))
