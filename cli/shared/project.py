"""What a command uses that is given neither manifests nor a cache: those of the project file, ``precast.toml``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from precast.build.project.project import Project

_NONE = "there is no precast.toml in this folder or above it: 'precast init' writes one"


def project_here() -> Project | None:
    """The project of the working folder."""
    from precast.build.project.project import find_project

    return find_project(Path.cwd())


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to build, where to, and for which targets (None: all). ``words`` are the arguments that say the same."""

    manifests: Sequence[Path]
    cache: Path | None
    target: Sequence[str] | None
    project: Project | None = None

    @property
    def folder(self) -> Path:
        """The folder of the cache, which must be known."""
        if self.cache is None:
            raise typer.BadParameter("name the folder of the cache with -o, or the manifests in precast.toml")
        return self.cache

    @property
    def words(self) -> str:
        """The arguments of a build of this request: none where the project file has them all."""
        if self.project is not None and self.cache == self.project.output:
            return ""
        manifests = "" if self.project is not None else f" {' '.join(map(str, self.manifests))}"
        return manifests + (f" -o {self.cache}" if self.cache is not None else "")


def requested(manifests: Sequence[Path] | None, cache: Path | None, target: Sequence[str] | None) -> Request:
    """The request of a command line. Without manifests, it is the project's, and what the line has takes precedence.

    A project's folder and targets belong to its own manifests: where others are named, they are not used.
    """
    if manifests:
        return Request(manifests=manifests, cache=cache, target=target)
    project = project_here()
    if project is None:
        raise typer.BadParameter(f"name at least one manifest; {_NONE}")
    return Request(
        manifests=project.manifests,
        cache=cache or project.output,
        target=target or list(project.targets) or None,
        project=project,
    )


def requested_with_cache(paths: Sequence[Path] | None, target: Sequence[str] | None) -> Request:
    """The request of ``[MANIFEST... CACHE]``.

    >>> requested_with_cache([Path("a.yaml"), Path("cache")], None).cache
    PosixPath('cache')
    """
    if not paths:
        return requested(None, None, target)
    if len(paths) < 2:
        raise typer.BadParameter("name at least one manifest, and the cache last; or neither, where precast.toml is")
    return requested(paths[:-1], paths[-1], target)


def cache_or_project(cache: Path | None) -> Path:
    """The cache that is named, or the project's, which must have been built."""
    if cache is not None:
        return cache
    project = project_here()
    if project is None:
        raise typer.BadParameter(f"name a cache; {_NONE}")
    return built_cache(project)


def built_cache(project: Project) -> Path:
    """The project's cache; raises OutputError where it has not been built."""
    from precast.build.errors import OutputError

    if not (project.output / "index.json").is_file():
        nested = any(project.output.glob("*/index.json"))
        todo = "name one of the caches in it" if nested else "run 'precast build'"
        raise OutputError(f"{project.output} is not a cache, and {project.file} names it: {todo}")
    return project.output


def store_folder(named: Path | None) -> Path:
    """The store that is named on the command line or by ``PRECAST_STORE``, else the project's, else the user's."""
    from precast.build.store.store import default_store

    if named is not None or os.environ.get("PRECAST_STORE"):
        return named or default_store()
    project = project_here()
    return project.store if project is not None and project.store is not None else default_store()


def worker_count(named: int | None) -> int | None:
    """The number of workers that is named on the command line, else the project's; None chooses one."""
    project = project_here() if named is None else None
    return (project.jobs if project is not None else named) or None
