"""The project: manifests, the folder of their cache, and how they are built, as ``precast.toml`` has them.

    manifests = ["norms.yaml", "gemm.yaml"]
    output = "cache"
    targets = ["sm_90a", "sm_100a"]
    store = "../store"
    jobs = 8

All paths are relative to the file. ``docs/building.md`` describes each key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from precast.build.errors import Location, ManifestError
from precast.build.plan.entry_reader import target_of
from precast.build.plan.yaml import fields
from precast.build.plan.yaml.reader import Node
from precast.build.project.toml_values import SIZE_LIMIT, read_toml
from precast.loader.regular_file import read_regular

NAME = "precast.toml"
MOST_JOBS = 1024

FIELDS = ("manifests", "output", "targets", "store", "jobs")
"""The keys of a project file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project file that was read and checked. ``store`` and ``jobs`` are None where the file does not set them."""

    file: Path
    manifests: tuple[Path, ...]
    output: Path
    targets: tuple[str, ...] = ()
    store: Path | None = None
    jobs: int | None = None


def read_project(file: Path) -> Project:
    """Read and check a project file; raises ManifestError."""
    try:
        data = read_regular(file, SIZE_LIMIT)
    except OSError as error:
        reason = f"cannot be read: {error.strerror}: make it a text file that this user can read, or remove it"
        raise ManifestError(reason, Location(str(file), 1, 1)) from None
    return parse_project(data, file)


def parse_project(data: bytes, file: Path) -> Project:
    """Read and check the text of a project file at ``file``.

    >>> project = parse_project(b'manifests = "norms.yaml"', Path("acme/precast.toml"))
    >>> project.manifests, project.output
    ((PosixPath('acme/norms.yaml'),), PosixPath('acme/cache'))
    """
    node = read_toml(data, str(file))
    values = fields.mapping(node, FIELDS)
    folder = file.parent
    manifests = fields.some(fields.required(values, "manifests", node), _path)
    return Project(
        file=file,
        manifests=tuple(folder / path for path in manifests),
        output=folder / (_path(values["output"]) if "output" in values else "cache"),
        targets=tuple(map(str, fields.some(values["targets"], target_of))) if "targets" in values else (),
        store=folder / _path(values["store"]) if "store" in values else None,
        jobs=_jobs(values["jobs"]) if "jobs" in values else None,
    )


def _path(node: Node) -> str:
    value = fields.text(node)
    if not value.strip():
        raise ManifestError("an empty path: name a file or a folder", node.at)
    return value


def _jobs(node: Node) -> int:
    if not isinstance(node.value, int) or isinstance(node.value, bool) or not 0 <= node.value <= MOST_JOBS:
        raise ManifestError(f"'jobs' is a number from 0 to {MOST_JOBS}: correct it", node.at)
    return node.value


def find_project(folder: Path) -> Project | None:
    """The project that a folder belongs to, with paths relative to the working folder; None where there is none.

    A build imports the kernels that manifests name, so a file above the working folder is used only if nobody else
    could have put it there: its owner is this user, root, or the owner of the working folder (as in a container with a
    mounted folder). Otherwise a ``precast.toml`` in /tmp would decide what runs in every folder below.

    >>> find_project(Path("/proc"))
    """
    start = folder.absolute()
    for above in (start, *start.parents):
        file = above / NAME
        if not os.path.lexists(file):
            continue
        if above != start:
            _check_owner(file, start)
        return read_project(Path(os.path.relpath(file)))
    return None


def _check_owner(file: Path, start: Path) -> None:
    try:
        owner, trusted = file.lstat().st_uid, {os.geteuid(), 0, start.stat().st_uid}
    except OSError as error:
        raise ManifestError(f"cannot be read: {error.strerror}: remove it", Location(str(file), 1, 1)) from None
    if owner not in trusted:
        reason = "it belongs to another user, who could run code here: run precast in its folder, or name the manifests"
        raise ManifestError(reason, Location(str(file), 1, 1))
