"""Attach: other libraries' own front ends, unmodified, with kernels from caches.

``precast.loader.attach(...)`` is called before the libraries are imported. From then on, where one of them would
compile a kernel, the caches are asked first.

    from precast import loader
    loader.attach(["quack"])
    import quack

``python -m precast.loader.attach [options] script.py ...`` does the same for a program that is not to be changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from precast.loader.attach.attachment import Attachment, KernelMissing, Missing, Mode
from precast.loader.attach.compiler import dsl, host_values, placeholder
from precast.loader.attach.compiler.placeholder import NoCompiler
from precast.loader.attach.guards import Guard, NotInstalled, folder_of
from precast.loader.attach.hooks import CacheAttribute, CompileFunctions, Decorator, Functions, replace_function
from precast.loader.attach.import_hook import after_import
from precast.loader.attach.library import SHIPPED, Library, Seam, declare, library_named
from precast.loader.attach.recorder import Recorder, recording_path
from precast.loader.attach.seam_count import SeamCount
from precast.loader.contract.recordings.keys import UnknownKey
from precast.loader.contract.recordings.recording import Recorded
from precast.loader.errors import ConfigError

__all__ = [
    "SHIPPED",
    "Attachment",
    "CacheAttribute",
    "CompileFunctions",
    "Decorator",
    "Functions",
    "Guard",
    "KernelMissing",
    "Library",
    "NoCompiler",
    "NotInstalled",
    "Recorded",
    "Seam",
    "SeamCount",
    "UnknownKey",
    "after_import",
    "attach",
    "attached",
    "declare",
    "library_named",
]

_current: Attachment | None = None  # of this process: see Attachment
_DSL_VERSION = "4.8.1"  # what placeholders say, unless PRECAST_ATTACH_DSL_VERSION does


def attach(
    libraries: Iterable[str | Library] | None = None,
    *,
    mode: Mode | None = None,
    missing: Missing | None = None,
    recording: str | os.PathLike[str] | None = None,
    without_compiler: bool = False,
    target: str | None = None,
) -> Attachment:
    """Have libraries take their kernels from caches. Call this before they are imported.

    A second call attaches further libraries. It may also change ``mode`` and ``missing``, for all: a server that is
    warm goes on ``frozen``.

    Parameters
    ----------
    libraries
        Names, or libraries of one's own; every shipped one that is installed if None.
    mode
        ``"serve"``, ``"record"`` or ``"frozen"``; ``"serve"`` if None, or what a call before this one said.
    missing
        What happens to a kernel that no cache has: ``"compile"`` as before, which is meant by None, ``"raise"``, or
        ``"skip"`` (it launches nothing, for a recording whose results do not count).
    recording
        The file that recorded keys are added to; ``PRECAST_RECORDING`` names it if None.
    without_compiler
        Let the libraries be imported where the DSL is not installed, with placeholders for its names.
    target
        Serve kernels for an architecture, such as ``"sm_90a"``, instead of the current device's.

    Returns
    -------
    Attachment
        ``counts()`` tells what each function of a library asked for, and why it was not served; ``print`` shows it.

    Examples
    --------
    >>> from precast import loader
    >>> attached = loader.attach([])  # or ["quack"], or nothing: every known library that is installed
    >>> print(attached)
    no attached library asked for a kernel

    See also: ``get``, ``freeze``.
    """
    global _current
    wanted = _chosen(libraries)
    _check_not_imported(wanted)
    path = Path(recording) if recording is not None else None
    if _current is None:
        recorder = Recorder(path or recording_path())
        now = Attachment(mode or "serve", missing=missing or "compile", recorder=recorder, target=target)
    else:
        now = _current
        if (path not in (None, now.recorder.path)) or target not in (None, now.target):
            raise ConfigError("this process is attached with another recording or target: give them at the first call")
        now.change(mode, missing)
    finders, known = list(sys.meta_path), dict(now.libraries)
    new = without_compiler and placeholder.install(os.environ.get("PRECAST_ATTACH_DSL_VERSION", _DSL_VERSION))
    try:
        if not placeholder.is_installed():
            dsl.install(now.note_untracked if now.noting else None)
        for library in wanted:
            _install(library, now, without_compiler)
    except BaseException:
        sys.meta_path[:], now.libraries = finders, known  # no module was imported yet: the hooks are gone
        if new:
            placeholder.uninstall()
        raise
    _current = now
    return now


def attached() -> Attachment | None:
    """The attachment of this process, if there is one.

    >>> attached() is attach([])
    True
    """
    return _current


def _chosen(libraries: Iterable[str | Library] | None) -> list[Library]:
    """The libraries that are meant, each of them installed."""
    if libraries is None:
        shipped = map(library_named, SHIPPED)
        return [library for library in shipped if folder_of(library.package) is not None]
    if isinstance(libraries, str):
        raise ConfigError(f"libraries={libraries!r} is one text: give a list, such as [{libraries!r}]")
    chosen = [declare(one) if isinstance(one, Library) else library_named(one) for one in libraries]
    for library in chosen:
        if folder_of(library.package) is None:
            raise ConfigError(
                f"{library.name}: there is no package {library.package} here: pip install {library.distribution},"
                " or do not attach it"
            )
    return chosen


def _check_not_imported(wanted: Iterable[Library]) -> None:
    """What was imported before keeps the functions that it took, without hooks."""
    known = {} if _current is None else _current.libraries
    for library in wanted:
        if library.package in sys.modules and library.name not in known:
            raise ConfigError(
                f"{library.package} is imported already: call precast.loader.attach before the first import of it"
            )


def _install(library: Library, attachment: Attachment, without_compiler: bool) -> None:
    if library.name in attachment.libraries:
        return
    for name, value in library.environment.items():
        os.environ.setdefault(name, value)
    for seam in library.seams:
        seam.install(attachment, library)
    if without_compiler:
        for place, answer in {**host_values.ANSWERS, **library.answers}.items():
            replace_function(place, answer)
    attachment.libraries[library.name] = library


class _CallableModule(ModuleType):
    """So that ``precast.loader.attach(...)`` and ``python -m precast.loader.attach`` are one name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Attachment:
        return attach(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
