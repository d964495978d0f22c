"""Attach: other libraries' own front ends, unmodified, with kernels from caches.

``precast.loader.attach(...)`` is called before the libraries are imported. From then on, where one of them would
compile a kernel, the caches are asked first.

>>> from precast import loader
>>> attached = loader.attach(["quack"], mode="serve")
>>> attached.mode
'serve'

``python -m precast.loader.attach [options] script.py ...`` does the same for a program that is not to be changed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from precast.loader.attach import dsl, placeholder
from precast.loader.attach.attachment import Attachment, KernelMissing, Missing, Mode, SeamCount
from precast.loader.attach.hooks import CacheAttribute, CompileFunctions, Decorator, Functions, replace_function
from precast.loader.attach.keys import UnknownKey
from precast.loader.attach.library import SHIPPED, Library, Seam, declare, library_named
from precast.loader.attach.recording import Recorded, Recorder, recording_path
from precast.loader.errors import ConfigError

__all__ = [
    "Attachment",
    "CacheAttribute",
    "CompileFunctions",
    "Decorator",
    "Functions",
    "KernelMissing",
    "Library",
    "Recorded",
    "Seam",
    "SeamCount",
    "UnknownKey",
    "attach",
    "attached",
    "declare",
]

_attached: Attachment | None = None
_libraries: set[str] = set()


def attach(
    libraries: Iterable[str | Library] | None = None,
    *,
    mode: Mode = "serve",
    missing: Missing = "compile",
    recording: str | os.PathLike[str] | None = None,
    without_compiler: bool = False,
    target: str | None = None,
) -> Attachment:
    """Have libraries take their kernels from caches. Call this before they are imported.

    Parameters
    ----------
    libraries
        Names, or libraries of one's own; every shipped one that is installed if None.
    mode
        ``"serve"``, ``"record"`` or ``"frozen"``.
    missing
        What happens to a kernel that no cache has: ``"compile"`` as before, ``"raise"``, or ``"skip"`` (it launches
        nothing, for a recording whose results do not count).
    recording
        The file that recorded keys are added to; ``PRECAST_RECORDING`` names it if None.
    without_compiler
        Let the libraries be imported where the DSL is not installed, with placeholders for its names.
    target
        Serve kernels for an architecture, such as ``"sm_90a"``, instead of the current device's.

    Returns
    -------
    Attachment
        ``counts()`` tells what each function of a library asked for, and why it was not served.

    Examples
    --------
    >>> from precast import loader
    >>> loader.attach(["quack"]).counts()
    ()

    See also: ``get``, ``freeze``.
    """
    global _attached
    if mode not in ("serve", "record", "frozen"):
        raise ConfigError(f"{mode!r} is not a mode: use 'serve', 'record' or 'frozen'")
    if missing not in ("compile", "raise", "skip"):
        raise ConfigError(f"{missing!r} is not what can happen to a missing kernel: use 'compile', 'raise' or 'skip'")
    wanted = [one if isinstance(one, Library) else library_named(one) for one in _chosen(libraries)]
    for library in wanted:
        declare(library)
        if library.package in sys.modules and library.name not in _libraries:
            raise ConfigError(
                f"{library.package} is imported already: call precast.loader.attach before the first import of it"
            )
    if _attached is not None and _libraries & {library.name for library in wanted}:
        _attached.mode, _attached.missing = mode, missing  # the hooks are there; they ask the same attachment
    if _attached is None:
        path = Path(recording) if recording is not None else recording_path()
        _attached = Attachment(mode, missing=missing, recorder=Recorder(path), target=target)
    if without_compiler:
        placeholder.install(os.environ.get("PRECAST_ATTACH_DSL_VERSION", "4.8.1"))
    else:
        dsl.install()
    for library in wanted:
        if library.name not in _libraries:
            _libraries.add(library.name)
            for name, value in library.environment.items():
                os.environ.setdefault(name, value)
            for seam in library.seams:
                seam.install(_attached, library)
            if without_compiler:
                for place, answer in library.answers.items():
                    replace_function(place, answer)
    return _attached


def attached() -> Attachment | None:
    """The attachment of this process, if there is one."""
    return _attached


def _chosen(libraries: Iterable[str | Library] | None) -> list[str | Library]:
    if libraries is None:
        return [name for name in SHIPPED if find_spec(library_named(name).package) is not None]
    if isinstance(libraries, str):
        raise ConfigError(f"libraries={libraries!r} is one text: give a list, such as [{libraries!r}]")
    return list(libraries)


class _CallableModule(ModuleType):
    """So that ``precast.loader.attach(...)`` and ``python -m precast.loader.attach`` are one name."""

    def __call__(self, *args: Any, **kwargs: Any) -> Attachment:
        return attach(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
