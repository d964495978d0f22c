"""Time every variant of a cache on this GPU, for 'precast tune'."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared.output import count, emit
from precast.cli.shared.progress import Progress

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
    as_json: Annotated[bool, typer.Option("--json", help="Print the measurements as JSON.")] = False,
) -> None:
    """Time every variant of a cache on this GPU, for 'precast tune'.

    The problems are those that the kernels declare, unless some are given. Exit status 1 means that nothing was
    measured.
    """
    from precast.cli.measure.launching import ops_of, this_device
    from precast.loader.resolve.cache import Cache

    given = [parse(text) for text in problem or ()]
    if output is not None and (output.is_dir() or not output.absolute().parent.is_dir()):
        raise typer.BadParameter(f"--output {output}: name a file in a folder that exists")
    opened = Cache(cache)
    ops = ops_of(opened, op or ())
    try:
        device = this_device()
        measured = _measure(opened, ops, device, given)
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


def _measure(cache: Cache, ops: Sequence[str], device: Device, given: Sequence[dict[str, int]]) -> Measurements:
    """The times of every artifact that this device runs, by op and problem."""
    from precast.build.cache.annotate import Measurements
    from precast.cli.measure.launching import Case, cases
    from precast.kernels.authoring.bench import bench, benched
    from precast.loader.format.tuning import Measured

    table: dict[str, dict[tuple[tuple[str, int], ...], dict[str, float]]] = {}
    with Progress() as progress:
        progress.stage(f"opening the artifacts of {count(len(ops), 'op')}")
        found = list(cases(cache, device, ops))
        progress.total = len(found)
        for case in found:
            if not isinstance(case, Case):
                progress.step(str(case), f"left out: {case.reason}")
                continue
            declared = benched(case.declaration, case.artifact.config) if case.declaration.problems else []
            if reason := misfit(given, declared):
                progress.step(str(case), f"left out: {reason}")
                continue
            progress.begin(str(case))
            problems: list[Mapping[str, int]] = list(given) or list(declared)
            last = ""
            for timing in bench(case.kernel, case.declaration, case.artifact.config, problems=problems):
                place = tuple(sorted(timing.problem.items()))
                times = table.setdefault(case.op, {}).setdefault(place, {})
                times[case.artifact.key] = round(timing.microseconds, 3)
                last = str(timing)
            progress.step(str(case), last)
    return Measurements(
        {
            op: tuple(
                Measured(gpu=device.name, capability=device.capability, problem=dict(place), times=times)
                for place, times in rows.items()
            )
            for op, rows in table.items()
        }
    )


def misfit(given: Sequence[Mapping[str, int]], declared: Sequence[Mapping[str, int]]) -> str:
    """Why a kernel cannot run the given problems: it names other sizes. Empty where it can, or declares none.

    >>> misfit([{"m": 4}], [{"m": 1, "n": 1}])
    'its problems are of the sizes m, n, not of m'
    """
    known = {tuple(sorted(problem)) for problem in declared}
    for problem in given:
        if known and tuple(sorted(problem)) not in known:
            sizes = " or ".join(", ".join(names) for names in sorted(known))
            return f"its problems are of the sizes {sizes}, not of {', '.join(sorted(problem))}"
    return ""


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
