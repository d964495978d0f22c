"""Caches for the keys of small libraries, and child processes to attach these in."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from precast import loader
from precast.attach.library import Library
from precast.attach.recordings.keys import encode
from precast.attach.recordings.provenance import COMPILER, DSL_DISTRIBUTION, SOURCE, VERSION
from precast.loader.contract.format.config import Key, to_value
from precast.loader.contract.format.several_objects import numbered
from tests.helpers.attach.mini_library import PACKAGE
from tests.helpers.caches import CacheWriter, Native, artifact
from tests.helpers.forks.forked_process import run_code

IMPORTED = Path(loader.__file__).parents[2]
"""The folder that ``precast`` is imported from: of the sources, or of installed wheels."""
TORCH = ("torch", "numpy")
TORCH_AND_DSL = (*TORCH, "cutlass.cute.runtime")
MINE = Library(name="mine", distribution=PACKAGE, package=PACKAGE, seams=())


def key_of(arguments: Mapping[str, Any], **guard: str) -> dict[str, Any]:
    """The full config of a key of the installed library, or of one that ``guard`` changes."""
    here = MINE.guard()
    forms = {name: encode(value) for name, value in arguments.items()}
    try:
        compiler = metadata.version(DSL_DISTRIBUTION)
    except metadata.PackageNotFoundError:  # on a server
        compiler = "4.8.1"
    return {**forms, VERSION: here.version, SOURCE: here.source, COMPILER: compiler, **guard}


def write_cache(
    native: Native,
    folder: Path,
    function: str,
    configs: Iterable[Mapping[str, Any]],
    *,
    provenance: Mapping[str, Any] | None = None,
    numbers: Iterable[int] = (0,),
) -> Path:
    """A cache with a kernel for each config of a function's op: those of its objects with these numbers."""
    writer = CacheWriter(name="keys")
    writer.runtime(*native.runtime())
    listed = list(configs)
    defaults: dict[str, Any] = {VERSION: listed[0][VERSION], SOURCE: listed[0][SOURCE], COMPILER: listed[0][COMPILER]}
    keys = [
        Key(name=name, tuned=name == COMPILER, has_default=name in defaults, default=to_value(defaults.get(name)))
        for name in listed[0]
    ]
    for number in numbers:
        rows = [
            artifact(
                writer.keep(native.entry(offset=place + 10 * number)), config, rank=place, provenance=provenance or {}
            )
            for place, config in enumerate(listed)
        ]
        writer.op(numbered(MINE.op(function), number), rows, tuple(keys))
    return writer.write(folder)


def run(
    *words: str | Path, path: Iterable[Path] = (), cwd: Path | None = None, cache: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """A child Python with these folders on its path, and these caches."""
    environment = _environment(path, cache, more)
    return subprocess.run(
        [sys.executable, *map(str, words)], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )


def run_forked(
    code: str,
    imported: Sequence[str] = TORCH_AND_DSL,
    *,
    path: Iterable[Path] = (),
    cache: Path | None = None,
    **more: str,
) -> subprocess.CompletedProcess[str]:
    """What ``run("-c", code)`` does, by a fork of a process that has imported these modules: they take seconds."""
    return run_code([code], _environment(path, cache, more), imported)


def _environment(path: Iterable[Path], cache: Path | None, more: Mapping[str, str]) -> dict[str, str]:
    folders = os.pathsep.join(map(str, path))
    return {**os.environ, "PYTHONPATH": folders, "PRECAST_CACHE_PATH": str(cache or ""), **more}


def passes(code: str, *, path: Iterable[Path] = (), cache: Path | None = None, imported: Sequence[str] = ()) -> None:
    """Run code, whose assertions must hold, in a child, which may be a fork of one that has imported these modules."""
    done = run_forked(code, imported, path=path, cache=cache) if imported else run("-c", code, path=path, cache=cache)
    assert done.returncode == 0, done.stderr[-3000:]
