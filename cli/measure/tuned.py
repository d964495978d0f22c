"""Putting files of measurements into a cache that is built: those of ``precast bench``, and tuning files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from precast.cli.shared.output import count, emit

if TYPE_CHECKING:
    from precast.build.cache.annotate import Measurements
    from precast.loader.resolve.cache import Cache


def put(paths: Sequence[Path], as_json: bool) -> None:
    """Put files of measurements into a cache; a later one wins."""
    from precast.build.cache.annotate import tune
    from precast.loader.resolve.cache import Cache

    if len(paths) < 2:
        raise typer.BadParameter("name a cache, then files of measurements; to measure, name the cache with --cache")
    folder, *files = paths
    cache = Cache(folder)
    read, notes = [], []
    for file in files:
        measurements, note = _read(cache, file)
        read.append(measurements)
        notes += [note] if note else []
    counts = tune(cache, read)
    lines = [f"{op}: {count(number, 'measured time')}" for op, number in sorted(counts.items())]
    emit(counts, "\n".join([*notes, *lines]) or "nothing was measured", as_json)


def _read(cache: Cache, path: Path) -> tuple[Measurements, str]:
    """What a file of either kind says of a cache, and a note where some of it is not about this cache's bytes."""
    from precast.build.cache.annotate import Measurements
    from precast.build.measurements.fit import Listed, code_digest, fit
    from precast.build.measurements.tuning_file import TuningFile, is_tuning_file
    from precast.loader.errors import FormatError

    try:
        data = path.read_bytes()
        if not is_tuning_file(data):
            return Measurements.decode(data), ""
        file = TuningFile.decode(data)
    except OSError as error:
        reason = f"{path} cannot be read ({error.strerror}): name a file from 'precast bench' or 'precast tune'"
        raise FormatError(reason) from None
    except FormatError as error:
        raise error.within(str(path)) from None
    listed = {op: Listed(cache.op(op).keys, cache.op(op).artifacts) for op in cache.index.ops}
    fitted = fit(file, listed, lambda artifact: code_digest(cache.read(artifact.blob)))
    return Measurements(fitted.rows), f"{path}: {fitted}" if fitted.left_out or fitted.earlier else ""
