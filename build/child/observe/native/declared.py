"""Declared folders: what a hermetic compilation may read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping

from precast.build.ipc.environment import HERMETIC

_ROOMS = ("attach", "build", "cli", "kernels", "loader", "manifests")
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/proc", "/sys", "/dev", "/etc/ld.so.cache", "/etc/ld.so.conf",
    "/etc/ld.so.preload", "/etc/localtime",
)  # fmt: skip


def declared_folders(path: Iterable[str], root: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of the manifest, of installed distributions, of the interpreter, of the system's programs and
    libraries, and of temporary files; with the paths that links among them stand for.

    ``path`` is Python's path, of which the folders of ``PYTHONPATH`` do not count. ``root`` has precast.

    >>> folders = declared_folders(["/opt/tools"], "/opt/precast", {"PYTHONPATH": "/opt/tools"})
    >>> "/opt/precast" in folders, "/usr" in folders, "/opt/tools" in folders
    (True, True, False)
    """
    added = {os.path.abspath(folder) for folder in environment.get("PYTHONPATH", "").split(os.pathsep) if folder}
    imported = [folder for folder in map(os.path.abspath, filter(None, path)) if folder not in added]
    base = os.path.realpath(__file__).rsplit("/build/", 1)[0]
    own = (root, *(os.path.join(base, room) for room in _ROOMS))
    interpreter = (sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(os.path.realpath(sys.executable)))
    temporary = environment.get("TMPDIR") or "/tmp"
    folders = [*imported, *own, *interpreter, *_SYSTEM, temporary]
    return tuple(sorted({path for folder in folders for path in (folder, os.path.realpath(folder)) if path != "/"}))


def is_hermetic(environment: Mapping[str, str]) -> bool:
    """Whether this environment requests it.

    >>> is_hermetic({HERMETIC: "1"}), is_hermetic({})
    (True, False)
    """
    return environment.get(HERMETIC) == "1"
