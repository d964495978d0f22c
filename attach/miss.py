"""A miss in words: why the caches do not serve a key of a library, without the digests that decide it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from precast.attach.guards import edited_files, version_of
from precast.attach.library import Library
from precast.attach.recordings.provenance import COMPILER, DSL_DISTRIBUTION, SOURCE, VERSION
from precast.loader.resolve.choose import Rejected

_GUARDS = {VERSION, SOURCE, COMPILER}
_FILES_SHOWN = 3
_MEND = "record and build it again (precast record -o recorded.yaml -- PROGRAM; precast build recorded.yaml)"


def in_words(library: Library, config: Mapping[str, Any], rejected: Iterable[Rejected]) -> str:
    """Why no variant serves the key: what is installed differs from what the nearest was built with, if it is that."""
    for nearest in rejected:
        if nearest.differing and _GUARDS.issuperset(nearest.differing):
            return guard_in_words(library, nearest.candidate.artifact.config, config)
    return "the recording that the caches were built from does not have it"


def guard_in_words(library: Library, built: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """How what is installed here differs from what a kernel was built with.

    >>> from precast.attach.library import library_named
    >>> guard_in_words(library_named("quack"), {VERSION: "0.6.5"}, {VERSION: "0.6.4"})
    'built with quack-kernels 0.6.5; 0.6.4 is installed'
    """
    if built.get(VERSION) != here.get(VERSION):
        return f"built with {library.distribution} {built.get(VERSION)}; {here.get(VERSION)} is installed"
    if built.get(SOURCE) != here.get(SOURCE):
        edited = edited_files(library.distribution, library.package)
        more = f" and {len(edited) - _FILES_SHOWN} more" if len(edited) > _FILES_SHOWN else ""
        names = ", ".join(name.removeprefix(f"{library.package}/") for name in edited[:_FILES_SHOWN])
        if not names:
            return f"built with other sources of {library.distribution} {here.get(VERSION)} than are installed"
        return f"files of {library.distribution} were edited: {names}{more}"
    return f"built with {DSL_DISTRIBUTION} {built.get(COMPILER)}; {version_of(DSL_DISTRIBUTION)} is installed"


def warning(function: str, words: str) -> str:
    """The one line that a process prints at its first miss.

    >>> print(warning("quack.softmax:Softmax.compile", "built with quack-kernels 0.6.5; 0.6.4 is installed"))
    precast: quack.softmax:Softmax.compile is compiled in this process, since no cache has its kernel: built with \
quack-kernels 0.6.5; 0.6.4 is installed. To have it served, record and build it again (precast record -o \
recorded.yaml -- PROGRAM; precast build recorded.yaml). Later misses are not printed: print(loader.attach([])) lists all
    """
    return (
        f"precast: {function} is compiled in this process, since no cache has its kernel: {words}. To have it served,"
        f" {_MEND}. Later misses are not printed: print(loader.attach([])) lists all"
    )
