"""A checked start: a program run from the companions of a cache, and what is compiled all the same."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from precast.attach.builder.recorded_run import run_to_end
from precast.attach.builder.recorded_start import environment_of, results
from precast.attach.companions.companion import Companion
from precast.attach.companions.machine_facts import Machine
from precast.attach.companions.placement import folder_of_companion, place_files
from precast.build.disk.scratch import temporary_folder
from precast.loader.errors import ConfigError
from precast.loader.resolve.cache import Cache

_COMPILERS = {"ptxas", "ptxas-blackwell", "cicc", "nvlink", "cc1", "cc1plus", "clang"}
_POLL_SECONDS = 0.02
_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedStart:
    """What a start did that its cache should have saved, a line each; how much was placed; and the exit status."""

    problems: tuple[str, ...]
    companions: int
    files: int
    status: int


def check_start(cache: Cache, words: list[str], companions: Iterable[Companion]) -> CheckedStart:
    """Place the companions of a cache into a new folder, run a program, and compare the folder before and after."""
    if cache.index.companions is None:
        raise ConfigError(f"{cache.path} has no companions: run 'precast start record' first")
    with temporary_folder() as root:
        placement = place_files(cache, root / "placed", Machine().facts, {})
        if placement.left_out:
            return CheckedStart(problems=tuple(map(str, placement.left_out)), companions=0, files=0, status=0)
        folders = {placed.companion: placed.folder for placed in placement.placed}
        for companion in companions:
            folders.setdefault(companion, folder_of_companion(root, companion.name)).mkdir(exist_ok=True)
        before = {companion: _sizes(companion, folder) for companion, folder in folders.items()}
        with CompilerWatch() as compilers:
            status = run_to_end(words, environment_of({c.variable: str(folder) for c, folder in folders.items()}))
        problems: list[str] = []
        for companion, folder in folders.items():
            after = _sizes(companion, folder)
            new = sorted(path for path in after if before[companion].get(path) != after[path])
            if new:
                more = f" and {len(new) - _SHOWN} more" if len(new) > _SHOWN else ""
                problems.append(f"{companion.title} wrote {', '.join(new[:_SHOWN])}{more}")
        for name, seconds in sorted(compilers.seconds().items()):
            problems.append(f"{len(seconds)} processes of {name} were seen, {sum(seconds):.1f} s in all")
    files = sum(placed.files for placed in placement.placed)
    return CheckedStart(problems=tuple(problems), companions=len(placement.placed), files=files, status=status)


def _sizes(companion: Companion, folder: Path) -> dict[str, tuple[int, int]]:
    """The size and the time of each result: an equal file that was written again counts as written."""
    facts = {path: os.stat(file, follow_symlinks=False) for path, file in results(companion, folder)}
    return {path: (fact.st_size, fact.st_mtime_ns) for path, fact in facts.items()}


class CompilerWatch:
    """Sees the compilers below this process, by looking every few milliseconds: shorter ones may be missed.

    >>> with CompilerWatch() as watch:
    ...     pass
    >>> watch.seconds()
    {}
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], tuple[str, float, float]] = {}  # by process number and start time
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> CompilerWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def seconds(self) -> dict[str, list[float]]:
        """The seconds between the first and the last look at each process of a compiler, by its name."""
        compilers: dict[str, list[float]] = {}
        for name, first, last in self._seen.values():
            compilers.setdefault(name, []).append(last - first)
        return compilers

    def _watch(self) -> None:
        while not self._end.is_set():
            parents: dict[int, int] = {}
            compilers: dict[int, tuple[str, int, str]] = {}
            for number in map(int, filter(str.isdigit, os.listdir("/proc"))):
                facts = _process(Path(f"/proc/{number}"))
                if facts is not None:
                    parents[number] = facts[1]
                    if facts[0] in _COMPILERS:
                        compilers[number] = facts
            for number, (name, _, begun) in compilers.items():
                if _is_below(number, parents):
                    now = time.monotonic()
                    _, first, _ = self._seen.get((number, begun), (name, now, now))
                    self._seen[number, begun] = name, first, now
            time.sleep(_POLL_SECONDS)


def _process(folder: Path) -> tuple[str, int, str] | None:
    """The name, the parent and the start time of a process, if it is there and does more than print its version."""
    try:
        text = (folder / "stat").read_text()
        name, _, rest = text.partition("(")[2].rpartition(")")
        if name in _COMPILERS:
            line = (folder / "cmdline").read_bytes()  # empty once it has ended: what it did is not known then
            if not line or b"--version" in line.split(b"\0"):
                return None
    except OSError:
        return None
    words = rest.split()
    return name, int(words[1]), words[19]


def _is_below(number: int, parents: dict[int, int]) -> bool:
    """Whether a process is a descendant of this one."""
    me = os.getpid()
    while number in parents and number != me:
        number = parents[number]
    return number == me
