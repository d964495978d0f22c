"""Modelled times, as ``precast tune --model`` writes them: for a GPU that nobody has measured on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from precast.cli.shared.output import count, emit

if TYPE_CHECKING:
    from precast.build.tuning.contest import Contest
    from precast.build.tuning.model import Model
    from precast.loader.resolve.cache import Cache


def tell_modelled(cache: Cache, found: Sequence[Contest], path: Path, model: Model, as_json: bool) -> None:
    """Write the modelled times of contests into a tuning file, in place of those of this GPU that it has."""
    from precast.build.disk.scratch import write_atomically
    from precast.build.measurements.tuning_file import TuningFile
    from precast.build.tuning.tuner import read_file
    from precast.kernels.authoring.launching.cases import declaration_for

    left_out, groups = [], []
    for one in found:
        artifact = next(a for a in cache.op(one.op).artifacts if a.key == one.contestants[0].key)
        group = model.group(one, one.problems, declaration_for(one.op, artifact)) if one.problems else None
        if group is None:
            left_out.append(f"{one}: {'its kernel declares no tile or no cost' if one.problems else 'no problems'}")
        else:
            groups.append(group)
    old = read_file(path)
    kept = tuple(g for g in old.groups if g.gpu != model.gpu.name)
    gpus = tuple(g for g in old.gpus if g.name != model.gpu.name)
    made = TuningFile(gpus=(model.gpu,), groups=tuple(groups))
    file = replace(made, gpus=(*gpus, model.gpu), groups=(*kept, *groups)) if groups else old
    if groups:
        write_atomically(path, file.encode())
    lines = [f"left out: {text}" for text in left_out]
    lines.append(f"{count(made.count, 'time')} modelled for {model.gpu.name}, not measured: {path} has {file.count}")
    data = {"file": str(path), "gpu": model.gpu.to_json(), "modelled": made.count, "left_out": left_out}
    emit(data, "\n".join(lines), as_json)
    if not groups:
        raise typer.Exit(1)
