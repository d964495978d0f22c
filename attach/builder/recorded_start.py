"""A recorded start: a program run with empty caches of other compilers, and the files that these then have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from precast.attach.builder.recorded_run import run_to_end
from precast.attach.companions.before_import import VARIABLE
from precast.attach.companions.companion import COMPANIONS, Companion
from precast.attach.companions.machine_facts import Machine
from precast.attach.companions.placement import folder_of_companion
from precast.attach.library import SHIPPED
from precast.build.cache.pack import uncompressed
from precast.build.disk.scratch import temporary_folder
from precast.loader.contract.format.artifact import BLOB_LIMIT
from precast.loader.contract.format.companion_index import (
    FILE_PATH,
    FOLDER,
    MOST_BYTES,
    MOST_RELOCATIONS,
    CompanionFile,
    CompanionIndex,
    CompanionState,
)
from precast.loader.contract.format.config import suggest
from precast.loader.errors import ConfigError
from precast.loader.regular_file import read_regular


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStart:
    """What a start left: its companions, the bytes of their files by digest, what was left out, and the exit status."""

    index: CompanionIndex
    contents: Mapping[str, bytes]
    left_out: tuple[str, ...]
    status: int


def companions_named(names: Iterable[str]) -> tuple[Companion, ...]:
    """The companions of these names; all of them for no name.

    >>> [companion.title for companion in companions_named(["triton"])]
    ['Triton']
    """
    named = list(names) or list(COMPANIONS)
    for name in named:
        if name not in COMPANIONS:
            raise ConfigError(f"{name!r} is not a companion{suggest(name, COMPANIONS)}")
    return tuple(COMPANIONS[name] for name in named)


def record_start(words: list[str], companions: Iterable[Companion], recording: Path | None) -> RecordedStart:
    """Run a program with an empty folder for each companion, and read what is in them when it has ended.

    ``recording`` is the file to which attached libraries record the kernels that they request; None records none.
    """
    states: list[CompanionState] = []
    contents: dict[str, bytes] = {}
    left_out: list[str] = []
    with temporary_folder() as root:
        folders = {companion: folder_of_companion(root, companion.name) for companion in companions}
        for folder in folders.values():
            folder.mkdir()
        environment = environment_of({c.variable: str(folder) for c, folder in folders.items()})
        if recording is not None:
            environment |= {"PRECAST_ATTACH": ",".join(SHIPPED), "PRECAST_ATTACH_MODE": "record"}
            environment |= {"PRECAST_RECORDING": str(recording.absolute())}
        status = run_to_end(words, environment)
        machine = Machine()
        for companion, folder in folders.items():
            collected = _Collected(companion, folder)
            left_out += collected.left_out
            if companion.refusal and collected.files:
                left_out.append(f"{companion.title}: {len(collected.files)} files: {companion.refusal}")
            elif collected.files:
                facts, files = machine.facts(companion), tuple(collected.files)
                states.append(CompanionState(name=companion.name, facts=facts, files=files))
                contents |= collected.contents
    index = CompanionIndex(command=tuple(words), companions=tuple(states))
    return RecordedStart(index=index, contents=contents, left_out=tuple(left_out), status=status)


def environment_of(folders: Mapping[str, str]) -> dict[str, str]:
    """The environment of a program whose companions have these folders, by variable: nothing else is placed for it."""
    return {**os.environ, VARIABLE: "off", **folders}


def results(companion: Companion, folder: Path) -> Iterator[tuple[str, Path]]:
    """The results in a companion's folder, by their paths below it."""
    for parent, _, names in os.walk(folder):
        for name in sorted(names):
            path = Path(parent, name)
            below = path.relative_to(folder).as_posix()
            if companion.is_result(below):
                yield below, path


class _Collected:
    """The files of one companion's folder, as a cache has them."""

    def __init__(self, companion: Companion, folder: Path) -> None:
        self.files: list[CompanionFile] = []
        self.contents: dict[str, bytes] = {}
        self.left_out: list[str] = []
        for below, path in results(companion, folder):
            reason = self._add(companion, below, path, os.fsencode(folder))
            if reason:
                self.left_out.append(f"{companion.title}: {below}: {reason}")

    def _add(self, companion: Companion, below: str, path: Path, folder: bytes) -> str:
        """Add a file; the reason where that is not possible."""
        if not FILE_PATH.admits(below):
            return "its name has characters that a cache cannot have"
        try:
            data = read_regular(path, MOST_BYTES)
        except OSError as error:
            return error.strerror or str(error)
        relocations = 0
        if companion.is_relocated(below):
            if FOLDER in data:
                return f"it has the text {FOLDER.decode()}"
            relocations = data.count(folder)
            if relocations > MOST_RELOCATIONS:
                return f"it names its folder {relocations} times; at most {MOST_RELOCATIONS} can be kept"
            data = data.replace(folder, FOLDER)
        parts = [data[start : start + BLOB_LIMIT] for start in range(0, len(data), BLOB_LIMIT)]
        blobs = tuple(map(uncompressed, parts))
        self.contents.update({blob.sha256: part for blob, part in zip(blobs, parts, strict=True)})
        self.files.append(CompanionFile(path=below, blobs=blobs, relocations=relocations))
        return ""
