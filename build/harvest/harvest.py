"""The harvest: which keys the files of other caches were compiled for.

A key counts where the library that is installed here would keep its kernel in that very file. Candidates are the keys
of manifests, and keys read from the names of files. The objects themselves are never used: a build compiles the keys.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from precast.build.harvest.file_names import FileName, NoFileName, file_names
from precast.build.harvest.found_files import META, NAMED_FOLDER, FoundFile, Kind, NoMeta, found_files, read_meta
from precast.build.harvest.name_patterns import NamePattern, name_patterns
from precast.loader.attach import CompileFunctions, Library, NotInstalled
from precast.loader.contract.format.target import Target
from precast.loader.contract.recordings.provenance import SOURCE, VERSION
from precast.loader.contract.recordings.recording import Recorded, merged
from precast.loader.errors import ConfigError

_NAMED = re.compile(rf"(.+)_(sm[0-9]+[af]?){NAMED_FOLDER}", re.ASCII)
MOST_KEYS = 20_000
_DEEPEST = 3  # folders that a file's name depends on
_Match = tuple[Recorded, Mapping[str, str]]  # a key, and what its file's meta.json must have

LINK = "a link, which is not followed"
FOREIGN = "not a name that a known library gives to a kernel of the DSL"
DIGEST = (
    "its name is a digest of its key, and no candidate has that key: name manifests that may have it, with --candidates"
)
OTHER_VERSION = (
    "compiled by another version of the library, the DSL, TVM-FFI or Python than is installed here: harvest it where "
    "that version is installed"
)
UNREAD = (
    "not every argument follows from its name, and no candidate has its key: name manifests that may have it, with "
    "--candidates"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HarvestedFile:
    """A file, and its keys; without a key the reason."""

    file: FoundFile
    keys: tuple[Recorded, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvest:
    """What the files of some folders were compiled for."""

    files: tuple[HarvestedFile, ...]
    unnamed: tuple[str, ...] = ()

    @property
    def recorded(self) -> tuple[Recorded, ...]:
        """The recovered keys, each once, sorted."""
        return merged(key for file in self.files for key in file.keys)

    def counts(self) -> dict[Kind, tuple[int, int]]:
        """The numbers of files and of recovered files, by kind."""
        numbers = Counter(harvested.file.kind for harvested in self.files)
        recovered = Counter(harvested.file.kind for harvested in self.files if harvested.keys)
        return {kind: (number, recovered[kind]) for kind, number in numbers.items()}


def harvest(
    folders: Iterable[Path], *, candidates: Iterable[Recorded], target: Target, libraries: Iterable[Library]
) -> Harvest:
    """Recover the keys of the files in some folders, for the libraries that are installed here."""
    files = tuple(dict.fromkeys(file for folder in folders for file in found_files(folder)))
    keys = merged((*candidates, *_keys_of_names(files, target, libraries)))
    if len(keys) > MOST_KEYS:
        raise ConfigError(
            f"{len(keys)} keys are to be compared, more than {MOST_KEYS}: harvest fewer folders at a time"
        )
    metas = {folder: read_meta(folder) for folder in {file.path.parent for file in files if file.kind == "named"}}
    return match(files, list(zip(keys, file_names(keys, target), strict=True)), metas=metas, target=target)


def match(
    files: Sequence[FoundFile],
    names: Sequence[tuple[Recorded, tuple[FileName, ...] | NoFileName]],
    *,
    metas: Mapping[Path, Mapping[str, str] | NoMeta],
    target: Target,
) -> Harvest:
    """Find the keys of files by the names that the library gives to the files of each key."""
    table: dict[tuple[str, ...], dict[str, _Match]] = defaultdict(dict)
    for key, named in names:
        for name in () if isinstance(named, NoFileName) else named:
            names_in_path = (*name.folders, name.name)
            table[names_in_path][key.key] = (key, name.meta or {})
    digests = {name for *_, name in table}

    def harvested(file: FoundFile) -> HarvestedFile:
        if file.is_link:
            return HarvestedFile(file=file, reason=LINK)
        if file.kind == "other":
            return HarvestedFile(file=file, reason=FOREIGN)
        parents = file.path.parent.parts
        matches: dict[str, _Match] = {}
        for depth in range(1, _DEEPEST + 1):
            path = (*parents[-depth:], file.stem)
            matches |= table.get(path, {})
        if file.kind == "digest":
            reason = "" if matches else OTHER_VERSION if file.stem in digests else DIGEST
        else:
            reason = _why_not_loaded(metas[file.path.parent], [meta for _, meta in matches.values()], file, target)
        return HarvestedFile(file=file, keys=() if reason else tuple(key for key, _ in matches.values()), reason=reason)

    reasons = (f"{key.compile}: {named.reason}" for key, named in names if isinstance(named, NoFileName))
    return Harvest(files=tuple(map(harvested, files)), unnamed=tuple(dict.fromkeys(reasons)))


def _why_not_loaded(
    meta: Mapping[str, str] | NoMeta, expected: Sequence[Mapping[str, str]], file: FoundFile, target: Target
) -> str:
    """Why the library would not load a named file, with what it expects in ``meta.json``; no text if it would."""
    match = _NAMED.fullmatch(file.path.parent.name)
    if match and match[2] != _arch(target):
        built_for = match[2].replace("sm", "sm_")
        return f"compiled for {built_for}: harvest it with --target {built_for}"
    if isinstance(meta, NoMeta):
        return f"the library would not load it: {meta.reason}"
    if not expected:
        return UNREAD
    different = [name for name in expected[0] if meta.get(name) != expected[0][name]]
    if different or len(meta) > len(expected[0]):
        return f"{META} has another {(different or ['field'])[0]} than the library expects here: {OTHER_VERSION}"
    return ""


def _keys_of_names(files: Iterable[FoundFile], target: Target, libraries: Iterable[Library]) -> Iterable[Recorded]:
    """The keys that names of files have in them, where a library names files by arguments."""
    folders: dict[str, set[str]] = defaultdict(set)
    for file in files:
        match = _NAMED.fullmatch(file.path.parent.name)
        if match and match[2] == _arch(target) and not file.is_link:
            folders[match[1]].add(file.stem)
    for library in libraries if folders else ():
        for pattern, guard in _patterns(library):
            for name in sorted(folders.get(pattern.module, ())):
                values = pattern.values(name)
                if values is not None:
                    yield Recorded(library=library.name, compile=pattern.function, config={**values, **guard})


def _patterns(library: Library) -> Iterable[tuple[NamePattern, Mapping[str, str]]]:
    """The patterns of a library's files, and its guard; none if it is not installed."""
    top, _, rest = library.package.partition(".")
    spec = find_spec(top)  # of a package without dots, which is not imported
    try:
        guard = library.guard()
    except NotInstalled:
        return
    folder = Path(next(iter((spec and spec.submodule_search_locations) or [])), *rest.split("."))
    for seam in library.seams:
        if isinstance(seam, CompileFunctions):
            for keep in seam.through:
                for pattern in name_patterns(folder, library.package, keep, without=seam.without):
                    yield pattern, {VERSION: guard.version, SOURCE: guard.source}


def _arch(target: Target) -> str:
    return str(target).replace("_", "")
