"""The engine check: which kernels an engine requests without a GPU, and no recording and no cache has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from precast.build.attached.missing_keys import kernels_of, missing_of
from precast.build.attached.recorded_run import ended, run_recorded
from precast.cli.shared.output import count, print_message
from precast.loader.contract.format.config import canonical
from precast.loader.contract.format.target import Target


def check_engine(words: list[str], paths: Sequence[Path], target: str) -> int:
    """Start an engine, list the keys that it requests and none of the files and caches has, and return the status."""
    if not paths:
        raise typer.BadParameter("name a recording or a cache, or several of them")
    held = [kernel for path in paths for kernel in kernels_of(path, Target.parse(target))]
    run = run_recorded(words, target, [], engine=True)
    missing = missing_of(run.recorded, held)
    for kernel in missing:
        print(f"missing: {kernel.compile}@{kernel.library} with {canonical(dict(kernel.config)).decode()}")
    number, names = len(run.recorded), " or ".join(map(str, paths))
    print(f"{number - len(missing)} of {count(number, 'key')} of the engine for {target} are in {names}")
    if run.status:
        print_message(f"the engine {ended(run.status)}: it may request more keys")
    return 1 if missing or run.status else 0
