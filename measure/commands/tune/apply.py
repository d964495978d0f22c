"""Put measured times into a cache that is built.

Where several files have a time of the same variant, problem and GPU, the last file wins.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from precast.cli.shared import options
from precast.cli.shared.output import count, print_result

if TYPE_CHECKING:
    from precast.loader.resolve.cache import Cache
    from precast.measure.annotate import Measurements

EXAMPLES = ("precast tune apply cache times.json",)


def command(
    cache: options.Cache,
    files: Annotated[
        list[Path], typer.Argument(help="Tuning files, or files from 'precast bench -o'.", metavar="FILE...")
    ],
    as_json: options.Json = False,
) -> None:
    from precast.loader.resolve.cache import Cache
    from precast.measure.annotate import tune

    opened = Cache(cache)
    measurements, notes = [], []
    for file in files:
        times, note = _read(opened, file)
        measurements.append(times)
        notes += [note] if note else []
    counts = tune(opened, measurements)
    lines = [f"{op}: {count(number, 'measured time')}" for op, number in sorted(counts.items())]
    print_result(counts, "\n".join([*notes, *lines]) or "no measured times", as_json)


def _read(cache: Cache, path: Path) -> tuple[Measurements, str]:
    """The times of a file that fit a cache, and a note where some were measured on other builds or do not fit."""
    from precast.build.measurements.fit import Listed, code_digest, fit
    from precast.build.measurements.tuning_file import TuningFile, is_tuning_file
    from precast.loader.errors import FormatError
    from precast.measure.annotate import Measurements

    try:
        data = path.read_bytes()
        if not is_tuning_file(data):
            return Measurements.decode(data), ""
        file = TuningFile.decode(data)
    except OSError as error:
        reason = f"{path} cannot be read ({error.strerror}): name a file from 'precast bench' or 'precast tune measure'"
        raise FormatError(reason) from None
    except FormatError as error:
        raise error.within(str(path)) from None
    listed = {op: Listed(cache.op(op).keys, cache.op(op).artifacts) for op in cache.index.ops}
    fitted = fit(file, listed, lambda artifact: code_digest(cache.read(artifact.blob)))
    return Measurements(fitted.rows), f"{path}: {fitted}" if fitted.left_out or fitted.earlier else ""
