"""Attach: other libraries' own front ends, unmodified, with kernels from caches.

``precast.loader.attach(...)`` is called before the libraries are imported. From then on, where one of them would
compile a kernel, it is looked up in the caches first.

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
from precast.loader.attach.fact_check import source_digest
from precast.loader.attach.guards import Guard, NotInstalled, folder_of, guard_of
from precast.loader.attach.hooks import CacheAttribute, CompileFunctions, Decorator, Functions, replace_function
from precast.loader.attach.import_hook import after_import
from precast.loader.attach.library import SHIPPED, Library, Seam, declare, library_named
from precast.loader.attach.method_hooks import ClassMethods, Keyed, KeyedMethods
from precast.loader.attach.recorder import Recorder, recording_path
from precast.loader.attach.seam_count import SeamCount
from precast.loader.contract.recordings.keys import UnknownKey
from precast.loader.contract.recordings.recording import Recorded
from precast.loader.errors import ConfigError

__all__ = [
    "SHIPPED",
    "Attachment",
    "CacheAttribute",
    "ClassMethods",
    "CompileFunctions",
    "Decorator",
    "Functions",
    "Guard",
    "KernelMissing",
    "Keyed",
    "KeyedMethods",
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
    "guard_of",
    "library_named",
    "source_digest",
]

_current: Attachment | None = None  # of this process: see Attachment
_DSL_VERSION = "4.8.1"  # of the placeholders, unless PRECAST_ATTACH_DSL_VERSION gives another


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

    A second call attaches further libraries. It may also change ``mode`` and ``missing``, for all: to ``frozen``,
    for example, once a server is warm.

    Parameters
    ----------
    libraries
        Names, or libraries of one's own; every shipped one that is installed if None.
    mode
        ``"serve"``, ``"record"`` or ``"frozen"``; if None, the mode of an earlier call, or ``"serve"``.
    missing
        What happens to a kernel that no cache has: ``"compile"`` as before (the default), ``"raise"``, or
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
        ``counts()`` reports what each function of a library requested, and why it was not served; ``print`` shows it.

    Examples
    --------
    >>> from precast import loader
    >>> attached = loader.attach([])  # or ["quack"], or nothing: every known library that is installed
    >>> print(attached)
    no attached library requested a kernel

    See also: ``get``, ``freeze``.
    """
    global _current
    chosen = _chosen(libraries)
    _check_not_imported(chosen)
    path = Path(recording) if recording is not None else None
    if _current is None:
        recorder = Recorder(path or recording_path())
        attachment = Attachment(mode or "serve", missing=missing or "compile", recorder=recorder, target=target)
    else:
        attachment = _current
        if (path not in (None, attachment.recorder.path)) or target not in (None, attachment.target):
            raise ConfigError("this process is attached with another recording or target: pass both in the first call")
        attachment.change(mode, missing)
    finders, attached_before = list(sys.meta_path), dict(attachment.libraries)
    new = without_compiler and placeholder.install(os.environ.get("PRECAST_ATTACH_DSL_VERSION", _DSL_VERSION))
    try:
        if not placeholder.is_installed():
            dsl.install(attachment.note_untracked if attachment.recording else None)
        for library in chosen:
            _install(library, attachment, without_compiler)
    except BaseException:
        sys.meta_path[:], attachment.libraries = (
            finders,
            attached_before,
        )  # no module was imported yet: the hooks are gone
        if new:
            placeholder.uninstall()
        raise
    _current = attachment
    return attachment


def attached() -> Attachment | None:
    """The attachment of this process, if there is one.

    >>> attached() is attach([])
    True
    """
    return _current


def _chosen(libraries: Iterable[str | Library] | None) -> list[Library]:
    """The libraries that were named, or every shipped one that is installed."""
    if libraries is None:
        shipped = map(library_named, SHIPPED)
        return [library for library in shipped if folder_of(library.package) is not None]
    if isinstance(libraries, str):
        raise ConfigError(f"libraries={libraries!r} is a string: pass a list, such as [{libraries!r}]")
    chosen = [declare(library) if isinstance(library, Library) else library_named(library) for library in libraries]
    for library in chosen:
        if folder_of(library.package) is None:
            raise ConfigError(
                f"{library.name}: the package {library.package} is not installed: pip install {library.distribution}"
            )
    return chosen


def _check_not_imported(libraries: Iterable[Library]) -> None:
    """A module that was imported before keeps the functions that it took, without hooks."""
    attached_before = {} if _current is None else _current.libraries
    for library in libraries:
        if library.package in sys.modules and library.name not in attached_before:
            raise ConfigError(
                f"{library.package} is already imported: call precast.loader.attach before the first import of it"
            )


def _install(library: Library, attachment: Attachment, without_compiler: bool) -> None:
    if library.name in attachment.libraries:
        return
    for name, value in library.environment.items():
        os.environ.setdefault(name, value)
    for seam in library.seams:
        seam.install(attachment, library)
    if without_compiler:
        for function, answer in {**host_values.ANSWERS, **library.answers}.items():
            replace_function(function, answer)
    attachment.libraries[library.name] = library


class _CallableModule(ModuleType):
    """So that ``precast.loader.attach(...)`` and ``python -m precast.loader.attach`` are one name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Attachment:
        return attach(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
