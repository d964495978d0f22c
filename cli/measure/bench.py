"""Time every variant of a cache on this GPU, beside its peers and what the GPU can do at most."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared.output import count, emit, table, tell
from precast.cli.shared.progress import Progress
from precast.cli.shared.sizes import sizes

if TYPE_CHECKING:
    from precast.build.bench.report import Report
    from precast.build.bench.rounds import Variant
    from precast.loader.contract.format.tiling import Tiling
    from precast.loader.machine.driver import Device
    from precast.loader.resolve.cache import Cache

_KEY = re.compile(r"[0-9a-f]{1,64}", re.ASCII)
_HEAD = (
    "kernel", "config", "problem", "cold us", "+-", "warm us", "host us", "GB/s", "TFLOP/s", "share", "peer", "ratio",
)  # fmt: skip
_NUMBERS = range(3, 10)  # the columns that stand to the right


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file for the measurements, for 'precast tune'.", metavar="FILE"),
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option("--op", help="Bench this op only; may be repeated.", metavar="OP")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", help="Only variants with this value, such as dtype=bfloat16.", metavar="KEY=VALUE"),
    ] = None,
    key: Annotated[
        str, typer.Option("--key", help="Bench the artifact whose key begins so.", metavar="KEY", show_default=False)
    ] = "",
    problem: Annotated[
        list[str] | None,
        typer.Option("--problem", help="A problem, such as m=4096,n=8192; may be repeated.", metavar="SIZES"),
    ] = None,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, max=100, help="How often each variant is timed.", metavar="N")
    ] = 3,
    peer: Annotated[bool, typer.Option("--peer/--no-peer", help="Time what others have for the same, too.")] = True,
    torch_compile: Annotated[
        bool, typer.Option("--torch-compile", help="Time the peers that torch has as 'torch.compile' makes them, too.")
    ] = False,
    just_in_time: Annotated[
        bool, typer.Option("--just-in-time", help="Time the call of the DSL's own object, too; needs the DSL.")
    ] = False,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=1, help="Seconds that all problems of one variant may take.", metavar="SEC"),
    ] = 300.0,
    svg: Annotated[Path | None, typer.Option("--svg", help="Draw the roofline into this file.", metavar="FILE")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Time every variant of a cache on this GPU, beside its peers and what the GPU can do at most.

    The problems are those that the kernels declare, unless some are given. Variants are launched in a process of their
    own: one that faults, hangs or refuses a problem is told, and costs itself alone. Exit status 1 means that nothing
    was measured.
    """
    from precast.kernels.authoring.launching.cases import ops_of, this_device
    from precast.loader.resolve.cache import Cache

    given = [sizes(text) for text in problem or ()]
    if key and not _KEY.fullmatch(key):
        raise typer.BadParameter(f"--key {key[:80]!r} is not the beginning of a key: write digits and letters a to f")
    for option, path in (("--output", output), ("--svg", svg)):
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            raise typer.BadParameter(f"{option} {path}: name a file in a folder that exists")
    if torch_compile and not peer:
        raise typer.BadParameter("--torch-compile compiles peers: leave out --no-peer")
    wanted = {"peer": peer, "torch_compile": torch_compile, "just_in_time": just_in_time}
    extras = ["warm", "host", *(name for name, asked in wanted.items() if asked)]
    opened = Cache(cache)
    ops = ops_of(opened, op or ())
    try:
        device = this_device()
        report = _measure(opened, ops, device, given, timeout, where or (), key, rounds, extras)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no measurements were written") from None
    if output is not None:
        output.write_bytes(report.measurements(_tilings(opened, report, device)).encode())
    if svg is not None:
        _draw(report, svg)
    emit(report.to_json(), _said(report, cache, output), as_json)
    if not as_json:
        for note in notes(report):
            tell(f"note: {note}")
    if not report.rows:
        raise typer.Exit(1)


def _measure(
    cache: Cache,
    ops: Sequence[str],
    device: Device,
    given: list[dict[str, int]],
    seconds: float,
    where: Sequence[str],
    key: str,
    times: int,
    extras: Sequence[str],
) -> Report:
    """What is found of every artifact that was asked for and that this device runs."""
    from precast.build.bench.rounds import name_of, rounds
    from precast.build.on_gpu.launches import Launches
    from precast.cli.shared.where import chosen
    from precast.kernels.authoring.launching.cases import launchable, obstacle
    from precast.loader.errors import ConfigError

    with Progress() as progress, Launches(cache.path, seconds) as launches:
        progress.stage(f"opening the artifacts of {count(len(ops), 'op')}")
        found = chosen(cache, ((o, a) for o, a in launchable(cache, ops) if a.key.startswith(key)), where)
        if key and not found:
            raise ConfigError(f"no artifact of {', '.join(ops)} has a key that begins with {key}: see 'precast list'")
        reasons = {artifact.key: obstacle(artifact, device) for _, artifact in found}
        fit: list[Variant] = [(o, a) for o, a in found if not reasons[a.key]]
        progress.total = len(found) + (times - 1) * len(fit)
        for one, artifact in found:
            if reason := reasons[artifact.key]:
                progress.step(f"{one} for {artifact.target}", f"left out: {reason}")
        report = rounds(launches, fit, device, progress, problems=given, count=times, extras=extras)
    apart = tuple((name_of(o, a), f"left out: {reasons[a.key]}") for o, a in found if reasons[a.key])
    return replace(report, left_out=(*apart, *report.left_out))


def _tilings(cache: Cache, report: Report, device: Device) -> dict[str, Tiling]:
    """How those that were timed cut a problem on this device, by key, where their authors say it."""
    from precast.kernels.authoring.launching.cases import tiling

    timed = {row.key for row in report.rows}
    artifacts = ((op, one) for op in {row.op for row in report.rows} for one in cache.op(op).artifacts)
    found = {one.key: tiling(op, one, device) for op, one in artifacts if one.key in timed}
    return {key: one for key, one in found.items() if one is not None}


def _said(report: Report, cache: Path, output: Path | None) -> str:
    """The table, and a line with how much there is of it."""
    into = f" in {output}: put them into the cache with 'precast tune {cache} {output}'" if output else ""
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
    """The table for people; what was not measured is left empty.

    ``share`` is the least possible time as a share of the cold one, ``ratio`` the time of the fastest peer over it.
    """
    from precast.build.bench.report import distinguishing

    made: list[tuple[str, ...]] = []
    for (row, at), config in zip(report.standings(), distinguishing(report.rows), strict=True):
        timing, us = row.timing, row.timing.microseconds
        peer, taken = min(timing.peers.items(), key=lambda item: item[1], default=("", 0.0))
        host = f"{timing.host:.1f}" if timing.host else ""
        made.append((
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
    return made


def notes(report: Report) -> list[str]:
    """What a reader of the table must know, each once."""
    found = list(report.notes)
    for row, at in report.standings():
        sizes = " ".join(f"{name}={size}" for name, size in row.timing.problem.items())
        if at is not None and at.note:
            found.append(f"{row.op} {row.key[:8]} at {sizes}: a share of {at.share:.3f}: {at.note}")
        found += [f"{row.op} {row.key[:8]}: {note}" for note in row.timing.notes]
    return list(dict.fromkeys(found))


def _draw(report: Report, file: Path) -> None:
    from precast.build.bench.picture import dots, picture

    if report.ceilings is None:
        tell(f"{file} is not drawn: there is no roof without what the GPU does at most")
        return
    file.write_text(picture(dots(report), report.ceilings, f"{report.gpu}: kernels under the roofline"))
