"""The attachment of this process: ``attach`` and ``attached``.

A process has one attachment, since its hooks change modules that everyone shares.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import cast, get_args

from precast.attach.attachment import Attachment, Missing, Mode
from precast.attach.companions.before_import import place_companions
from precast.attach.compiler import dsl, host_values, importers
from precast.attach.guards import folder_of
from precast.attach.late.reasons import reason_against
from precast.attach.library import SHIPPED, Library, declare, library_named
from precast.attach.recorder import Recorder, recording_path
from precast.attach.seams.hooks import replace_function
from precast.loader.errors import ConfigError

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

    A second call attaches further libraries; one that is attached stays as it is. It may also change ``mode`` and
    ``missing``, for all: to ``frozen``, for example, once a server is warm. A library that is imported already is
    refused where something in the process has taken what would be replaced.

    Parameters
    ----------
    libraries
        Names, or libraries of one's own; every shipped one that is installed if None.
    mode
        ``"serve"``, ``"record"`` or ``"frozen"``; if None, the mode of an earlier call, else that of the variable
        ``PRECAST_ATTACH_MODE``, else ``"serve"``.
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
    path = Path(recording) if recording is not None else None
    if _current is None:
        recorder = Recorder(path or recording_path())
        attachment = Attachment(mode or _mode(), missing=missing or "compile", recorder=recorder, target=target)
    else:
        attachment = _current
        if (path not in (None, attachment.recorder.path)) or target not in (None, attachment.target):
            raise ConfigError("this process is attached with another recording or target: pass both in the first call")
    by_name = {library.name: library for library in chosen if library.name not in attachment.libraries}
    chosen = list(by_name.values())
    for library in chosen:
        _check_in_time(
            library, attachment, placeholders=without_compiler and not importers.is_admitted(library.package)
        )
    if chosen and (mode or attachment.mode) != "record":
        attachment.companions += place_companions(frozen=(mode or attachment.mode) == "frozen")
    attachment.change(mode, missing)
    finders, attached_before = list(sys.meta_path), dict(attachment.libraries)
    new = without_compiler and importers.install(os.environ.get("PRECAST_ATTACH_DSL_VERSION", _DSL_VERSION))
    try:
        if _current is None and not importers.is_installed():
            dsl.install(attachment.note_untracked if attachment.recording else None)
        for library in chosen:
            _install(library, attachment, without_compiler)
    except BaseException:
        # The hooks of modules to come are gone; those of imported modules were checked, and do not fail.
        sys.meta_path[:], attachment.libraries = finders, attached_before
        if new:
            importers.uninstall()
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


def _mode() -> Mode:
    """The mode of a first call that names none."""
    named = os.environ.get("PRECAST_ATTACH_MODE") or "serve"
    if named not in get_args(Mode):
        raise ConfigError(f"PRECAST_ATTACH_MODE={named} is not a mode: use {', '.join(get_args(Mode))}")
    return cast("Mode", named)


def _check_in_time(library: Library, attachment: Attachment, *, placeholders: bool) -> None:
    """Before anything is changed: a refused call leaves the process as it was."""
    reason = reason_against(library, attachment, placeholders=placeholders)
    if reason is not None:
        raise ConfigError(
            f"{reason}: attach {library.name} before the first import of {library.package}, in the program or"
            f" by PRECAST_ATTACH={library.name} in its environment"
        )


def _install(library: Library, attachment: Attachment, without_compiler: bool) -> None:
    for name, value in library.environment.items():
        os.environ.setdefault(name, value)
    if without_compiler:
        for package in (library.package, *library.imports):
            importers.admit(package)
    for seam in library.seams:
        seam.install(attachment, library)
    if without_compiler:
        for function, answer in {**host_values.ANSWERS, **library.answers}.items():
            replace_function(function, answer)
    attachment.libraries[library.name] = library
