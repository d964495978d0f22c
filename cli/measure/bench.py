"""Time every variant of a cache on this GPU, for 'precast tune'."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared.output import count, emit
from precast.cli.shared.progress import Progress
from precast.loader.format.config import config_text

if TYPE_CHECKING:
    from precast.build.cache.annotate import Measurements
    from precast.loader.resolve.cache import Cache
    from precast.loader.resolve.driver import Device

_SIZE = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The file for the measurements.", metavar="FILE")
    ] = None,
    op: Annotated[
        list[str] | None, typer.Option("--op", help="Bench this op only; may be repeated.", metavar="OP")
    ] = None,
    problem: Annotated[
        list[str] | None,
        typer.Option("--problem", help="A problem, such as m=4096,n=8192; may be repeated.", metavar="SIZES"),
    ] = None,
    timeout: Annotated[
        float,
        typer.Option("--timeout", min=1, help="Seconds that all problems of one variant may take.", metavar="SEC"),
    ] = 300.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the measurements as JSON.")] = False,
) -> None:
    """Time every variant of a cache on this GPU, for 'precast tune'.

    The problems are those that the kernels declare, unless some are given. Variants are launched in a process of their
    own: one that faults, hangs or refuses a problem is told, and costs itself alone. Exit status 1 means that nothing
    was measured.
    """
    from precast.kernels.authoring.launching import ops_of, this_device
    from precast.loader.resolve.cache import Cache

    given = [parse(text) for text in problem or ()]
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        raise typer.BadParameter(f"--output {output}: name a file in a folder that exists")
    opened = Cache(cache)
    ops = ops_of(opened, op or ())
    try:
        device = this_device()
        measured = _measure(opened, ops, device, given, timeout)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("no measurements were written") from None
    data = measured.encode()
    if output is not None:
        output.write_bytes(data)
    number = sum(len(row.times) for rows in measured.ops.values() for row in rows)
    into = f" in {output}: put them into the cache with 'precast tune {cache} {output}'" if output else ""
    emit(json.loads(data), f"{count(number, 'time')} measured on {device.name}{into}", as_json)
    if not number:
        raise typer.Exit(1)


def _measure(
    cache: Cache, ops: Sequence[str], device: Device, given: list[dict[str, int]], seconds: float
) -> Measurements:
    """The times of every artifact that this device runs, by op and problem."""
    from precast.build.cache.annotate import Measurements
    from precast.build.launches import Launches
    from precast.kernels.authoring.launching import launchable, obstacle
    from precast.loader.format.tuning import Measured

    table: dict[str, dict[tuple[tuple[str, int], ...], dict[str, float]]] = {}
    with Progress() as progress, Launches(cache.path, seconds) as launches:
        progress.stage(f"opening the artifacts of {count(len(ops), 'op')}")
        found = list(launchable(cache, ops))
        progress.total = len(found)
        for op, artifact in found:
            if reason := obstacle(artifact, device):
                progress.step(f"{op} for {artifact.target}", f"left out: {reason}")
                continue
            name = f"{op}({config_text(artifact.config)}) for {artifact.target}"
            progress.begin(name)
            timed = launches.timed(op, artifact.key, given or None)
            for one in timed:
                if not one.refused:
                    place = tuple(sorted(one.problem.items()))
                    table.setdefault(op, {}).setdefault(place, {})[artifact.key] = round(one.microseconds, 3)
            refused = [str(one) for one in timed if one.refused]
            last = [one.text for one in timed if not one.refused][-1:]
            progress.step(name, "; ".join([*last, *refused]), keep=bool(refused))
    return Measurements(
        {
            op: tuple(
                Measured(gpu=device.name, capability=device.capability, problem=dict(place), times=times)
                for place, times in rows.items()
            )
            for op, rows in table.items()
        }
    )


def parse(text: str) -> dict[str, int]:
    """A problem as it is written on the command line.

    >>> parse("m=4096,n=8192")
    {'m': 4096, 'n': 8192}
    """
    from precast.loader.errors import FormatError
    from precast.loader.format.tuning import parse_problem

    pairs = [item.partition("=")[::2] for item in text.split(",")]
    sizes = {name.strip(): size for name, size in pairs}
    good = all(name and _SIZE.fullmatch(size) for name, size in sizes.items())
    if not good or len(sizes) < len(pairs):
        raise FormatError(f"{text[:80]!r} is not a problem: write each name once with its size, like m=4096,n=8192")
    try:
        return parse_problem({name: int(size) for name, size in sizes.items()})
    except FormatError as error:
        raise error.within(text[:80]) from None
