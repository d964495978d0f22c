"""The engine check: which kernels an engine requests without a GPU, and no recording and no cache has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from precast.cli.shared.output import count, print_message
from precast.cli.shared.recording.recorded_run import ended, run_recorded
from precast.loader.attach import library_named
from precast.loader.contract.format.config import Config, canonical, to_value
from precast.loader.contract.recordings.recording import Recorded
from precast.loader.resolve.candidate import same

Held = tuple[str, Config]


def check_engine(words: list[str], paths: Sequence[Path], target: str) -> int:
    """Start an engine, list the keys that it requests and none of the files and caches has, and return the status."""
    if not paths:
        raise typer.BadParameter("name a recording or a cache, or several of them")
    held = [kernel for path in paths for kernel in kernels_of(path)]
    run = run_recorded(words, target, [], engine=True)
    missing = missing_of(run.recorded, held)
    for kernel in missing:
        print(f"missing: {kernel.compile}@{kernel.library} with {canonical(dict(kernel.config)).decode()}")
    number = len(run.recorded)
    print(f"{number - len(missing)} of {count(number, 'key')} of the engine are in {' or '.join(map(str, paths))}")
    if run.status:
        print_message(f"the engine {ended(run.status)}: it may request more keys")
    return 1 if missing or run.status else 0


def kernels_of(path: Path) -> Iterator[Held]:
    """The ops and configs of a cache, or of a manifest that ``precast record`` wrote."""
    from precast.build.cache.contents import CacheContents
    from precast.build.plan.recordings.recorded_manifest import read_recorded_manifest

    if path.is_dir():
        for identity, artifact in CacheContents.open(path).artifacts.items():
            yield identity.op, artifact.config
    else:
        yield from map(held_as, read_recorded_manifest(path).recorded)


def held_as(kernel: Recorded) -> Held:
    """The op and the config that a cache has for a recorded key."""
    config = {name: to_value(value) for name, value in kernel.config.items()}
    return library_named(kernel.library).op(kernel.compile), config


def missing_of(recorded: Sequence[Recorded], held: Sequence[Held]) -> list[Recorded]:
    """The keys that are not held; what is held may have more in its config, such as the compiler's version.

    >>> one, other = (Recorded(library="quack", compile="quack.m:f", config={"N": n}) for n in (1, 2))
    >>> op, config = held_as(one)
    >>> missing_of([one, other], [(op, {**config, "compiler": "4.8.0"})]) == [other]
    True
    """

    def holds(kernel: Recorded) -> bool:
        op, config = held_as(kernel)
        return any(op == other and all(same(has.get(n), config[n]) for n in config) for other, has in held)

    return [kernel for kernel in recorded if not holds(kernel)]
