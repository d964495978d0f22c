"""Precast's own code for the Python of a toolchain: a folder with links to it, and to nothing beside it.

The compiler's processes run the code of this build, not of a precast that is installed with the compiler. The folder of
this code may be the builder's site-packages, which must not be on the path of a toolchain.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

from precast.build.disk.memo import memo_key
from precast.build.disk.scratch import scratch_folder
from precast.build.errors import ToolchainError, ToolError
from precast.build.interpreter import HERE

ROOMS = ("build", "cli", "kernels", "loader", "manifests")
DISTRIBUTIONS = ("precast", "precast-loader")


def link_own_code(parent: Path) -> Path:
    """A folder below ``parent`` with links to precast's packages, and to the metadata that registers its kernels."""
    links = {f"precast/{room}": _package(room) for room in ROOMS} | dict(map(_metadata, DISTRIBUTIONS))
    folder = parent / memo_key({name: str(path) for name, path in links.items()})[:16]
    if _holds(folder, links):
        return folder
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(parent, ".making-") as scratch:
            (scratch / "precast").mkdir()
            for name, path in links.items():
                (scratch / name).symlink_to(path)
            try:
                os.rename(scratch, folder)
            except OSError:  # another build was first
                if not _holds(folder, links):
                    raise
    except OSError as error:
        raise ToolchainError(f"{folder} cannot be written ({error.strerror}): free disk space, or remove it") from error
    return folder


def _package(room: str) -> Path:
    return Path(next(iter(import_module(f"precast.{room}").__path__))).resolve()


def _metadata(name: str) -> tuple[str, Path]:
    """The metadata folder of a distribution, with its name."""
    folder = getattr(HERE.distribution(name), "_path", None)
    if folder is None or not Path(folder).is_dir():
        raise ToolError(f"{name} has no metadata folder: install precast with pip")
    return Path(folder).name, Path(folder).resolve()


def _holds(folder: Path, links: dict[str, Path]) -> bool:
    try:
        return all(Path(os.readlink(folder / name)) == path for name, path in links.items())
    except OSError:
        return False
