"""Input files: the paths that a plan and its variants depend on, as far as manifests and the store name them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from precast.build.disk.memo import Memo
from precast.build.inputs.input_answers import InputAnswers, answers_here
from precast.build.inputs.sources import SourceDigests
from precast.build.link.toolchain import find_toolchain
from precast.build.plan.manifest import Manifest, read_manifest
from precast.build.plan.plan import Plan
from precast.build.store.key import variant_key
from precast.build.store.store import Store
from precast.loader.errors import PrecastError

_FILES = ("file", "folder", "source")


def manifest_files(paths: Iterable[Path], notes: Memo) -> frozenset[str]:
    """The manifests, what they name, and the modules of their kernels: what a plan depends on even where it fails.

    >>> sorted(manifest_files([Path("/no/such/manifest.yaml")], Memo(Path("/no/such/notes"))))
    ['/no/such/manifest.yaml']
    """
    return frozenset(os.path.abspath(file) for path in paths for file in (path, *_named(path, notes)))


def plan_files(plan: Plan, store: Store) -> frozenset[str]:
    """The files and folders that the variants of a plan were made of, when they were last built."""
    answers = answers_here(plan.search, store.notes)
    sources = SourceDigests(plan.search, store.notes)
    toolchain = find_toolchain()
    names: set[str] = set()
    for variant in plan.variants:
        key = variant_key(variant, toolchain, sources.digest(variant.source))
        for requested in store.requested(key, fetch=False):
            names |= {*requested.inputs, *requested.installed}
    paths = (path for name in sorted(names) if (path := _path(name, answers)) is not None)
    own = (str(file) for source in {v.source for v in plan.variants} for file in sources.reached(source))
    return frozenset((*paths, *own))


def _named(path: Path, notes: Memo) -> Iterator[Path]:
    try:
        manifest = read_manifest(path)
    except PrecastError:  # it is reported by the build; the manifest itself is watched
        return
    yield from manifest.search
    yield from (tuning.path for tuning in manifest.tuning)
    yield from _modules(manifest, notes)


def _modules(manifest: Manifest, notes: Memo) -> Iterator[Path]:
    """The files of the functions and scripts that the entries name. They are read, never imported."""
    sources = SourceDigests(manifest.search, notes)
    for entry in manifest.entries:
        source = entry.program.source if entry.program is not None else entry.source
        if isinstance(source, Path):
            yield source
            continue
        try:
            yield from sources.reached(source) if source else ()
        except (PrecastError, OSError):  # there is no such module yet: a folder of the search gets it
            continue


def _path(name: str, answers: InputAnswers) -> str | None:
    """The path of an input; None for one that is not a file, such as a variable."""
    kind, _, rest = name.partition(":")
    return answers.roots.path_of(rest) if kind in _FILES else None
