"""Time every variant of a cache on this GPU, for 'precast tune'."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from precast.cli.shared.output import count, emit
from precast.cli.shared.progress import Progress


def command(
    cache: Annotated[Path, typer.Argument(help="The folder of the cache.", metavar="CACHE")],
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the measurements.")] = None,
    op: Annotated[list[str] | None, typer.Option("--op", help="Bench this op alone; may be repeated.")] = None,
    problem: Annotated[
        list[str] | None, typer.Option("--problem", help="A problem, such as m=4096,n=8192; may be repeated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the measurements as JSON.")] = False,
) -> None:
    """Time every variant of a cache on this GPU, for 'precast tune'.

    The problems are those that the kernels declare, unless some are given.
    """
    import json

    from precast.build.cache.annotate import Measurements
    from precast.cli.measure.launching import Case, cases, this_device
    from precast.kernels.authoring.bench import bench, benched
    from precast.loader.format.tuning import Measured
    from precast.loader.resolve.cache import Cache

    given = [parse(text) for text in problem or ()]
    device = this_device()
    found = list(cases(Cache(cache), device, tuple(op or ())))
    table: dict[str, dict[tuple[tuple[str, int], ...], dict[str, float]]] = {}
    with Progress(len(found)) as progress:
        for case in found:
            if not isinstance(case, Case):
                progress.step(case.op, f"left out: {case.reason}")
                continue
            problems = given or benched(case.declaration, case.artifact.config)
            last = ""
            for timing in bench(case.kernel, case.declaration, case.artifact.config, problems=list(problems)):
                place = tuple(sorted(timing.problem.items()))
                times = table.setdefault(case.op, {}).setdefault(place, {})
                times[case.artifact.key] = round(timing.microseconds, 3)
                last = str(timing)
            progress.step(str(case), last)
    measured = Measurements(
        {
            name: tuple(
                Measured(gpu=device.name, capability=device.capability, problem=dict(place), times=times)
                for place, times in rows.items()
            )
            for name, rows in table.items()
        }
    )
    data = measured.encode()
    if output is not None:
        output.write_bytes(data)
    number = sum(len(times) for rows in table.values() for times in rows.values())
    into = f" in {output}: put them into the cache with 'precast tune {cache} {output}'" if output else ""
    emit(json.loads(data), f"{count(number, 'time')} measured on {device.name}{into}", as_json)
    if not number:
        raise typer.Exit(1)


def parse(text: str) -> dict[str, int]:
    """A problem as it is written on the command line.

    >>> parse("m=4096,n=8192")
    {'m': 4096, 'n': 8192}
    """
    from precast.loader.errors import FormatError
    from precast.loader.format.tuning import parse_problem

    pairs = [item.partition("=")[::2] for item in text.split(",")]
    if not all(size.isascii() and size.isdigit() for _, size in pairs):
        raise FormatError(f"{text!r} is not a problem: write it like m=4096,n=8192")
    return parse_problem({name.strip(): int(size) for name, size in pairs})
