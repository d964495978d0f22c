"""A miss in words: why the caches do not serve a key of a library, without the digests that decide it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.attach.guards import edited_files, version_of
from precast.attach.library import Library
from precast.attach.recordings.provenance import COMPILER, DSL_DISTRIBUTION, SOURCE, VERSION
from precast.loader.errors import OpNotFound, PrecastError, VariantNotFound
from precast.loader.resolve.choose import Rejected

_GUARDS = {VERSION, SOURCE, COMPILER}
_FILES_SHOWN = 3
_BUILD = "precast build recorded.yaml -o cache"
UPDATE = f"update the recording and build it again (precast record --update recorded.yaml; {_BUILD})"
_RECORD = f"add it to the recording and build again (precast record --append -o recorded.yaml -- PROGRAM; {_BUILD})"
_AGAIN = f"build it again for this machine and what is installed on it ({_BUILD})"


def skew(library: Library, config: Mapping[str, Any], error: PrecastError) -> str | None:
    """How what is installed differs from what a cache's kernel of this key was built with; None if it is not that."""
    for nearest in _rejected(error):
        if nearest.differing and _GUARDS.issuperset(nearest.differing):
            return guard_in_words(library, nearest.candidate.artifact.config, config)
    return None


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


def reason(skew: str | None, error: PrecastError) -> str:
    """The reason of one miss, for reports and errors: how the nearest variant differs."""
    rejected = _rejected(error)
    if skew is not None or not isinstance(error, VariantNotFound):
        return skew or str(error)
    return "; ".join(rejected[0].reasons) if rejected else "no variant of it is built"


def warning(function: str, skew: str | None, error: PrecastError) -> str:
    """The one line that a process prints at its first miss.

    >>> print(warning("quack.softmax:compile", "built with quack-kernels 0.6.5; 0.6.4 is installed", OpNotFound()))
    precast: quack.softmax:compile is compiled in this process, since no cache has its kernel: built with \
quack-kernels 0.6.5; 0.6.4 is installed. To have it served, update the recording and build it again (precast record \
--update recorded.yaml; precast build recorded.yaml -o cache). Later misses are not printed: print(loader.attach([])) \
lists all
    """
    rejected = _rejected(error)
    if skew is not None:
        words, mend = skew, UPDATE
    elif rejected and not rejected[0].differing:  # the key is there, for another GPU or host
        words, mend = "; ".join(rejected[0].reasons), _AGAIN
    elif isinstance(error, VariantNotFound):
        words, mend = "the recording that the caches were built from does not have it", _RECORD
    elif isinstance(error, OpNotFound):
        words, mend = "no cache that is installed here has a kernel of this function", _RECORD
    else:
        words, mend = str(error), _AGAIN
    return (
        f"precast: {function} is compiled in this process, since no cache has its kernel: {words}. To have it served,"
        f" {mend}. Later misses are not printed: print(loader.attach([])) lists all"
    )


def _rejected(error: PrecastError) -> Sequence[Rejected]:
    """Why each variant of the op was refused, the nearest first."""
    rejected: Sequence[Rejected] = getattr(getattr(error, "resolution", None), "rejected", ())
    return rejected
