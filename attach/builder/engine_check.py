"""The engine check of ``precast check``: kernels that an engine requests, and that no recording and no cache has."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from precast.attach.builder.missing_keys import kernels_of, missing_of
from precast.attach.builder.own_target import own_target
from precast.attach.builder.recorded_run import ended, engine_words, run_recorded
from precast.cli.shared.output import count, print_message
from precast.loader.contract.format.config import canonical
from precast.loader.contract.format.target import Target


def check_engine(
    engine: str,
    model: Path | None,
    paths: Sequence[Path],
    *,
    target: Sequence[str],
    tensor_parallel: int,
    options: Sequence[str],
) -> int:
    """Start an engine, list the keys that it requests and none of the files and caches has, and return the status."""
    words = engine_words(engine, model, tensor_parallel, options)
    if not paths:
        raise typer.BadParameter("name a recording or a cache, or several of them")
    targets = target or [own_target("check for")]
    return max(_check(words, paths, each) for each in targets)


def _check(words: list[str], paths: Sequence[Path], target: str) -> int:
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
