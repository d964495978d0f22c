"""Seam digests: those of the files that decide how a compile function of an attached library is run."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from precast.attach.library import library_named
from precast.build.errors import ToolError
from precast.kernels.authoring.extras import installing

# What runs a compile function of an attached library, beside the library's own file: a change may change the object.
_SEAM = (
    "precast.attach.builder.child.seam",
    "precast.kernels.adapters.fake_tensors",
    "precast.attach.seams.hooks",
    "precast.attach.recordings.key_reader",
    "precast.attach.recordings.keys",
    "precast.attach.recordings.return_structure",
)


@functools.cache
def seam_digests(library: str) -> Mapping[str, str | None]:
    """The digest of each file that decides how a compile function of an attached library is run.

    None stands for a library that this Python does not declare. Each file is read once, so that all keys of a build are
    of the same moment.

    >>> "precast.attach.libraries.quack" in seam_digests("quack"), seam_digests("unheard_of")["unheard_of"]
    (True, None)
    """
    digests: dict[str, str | None] = {module: _file_digest(module) for module in _SEAM}
    shipped = f"precast.attach.libraries.{library}"
    declared = {entry.name: entry.module for entry in entry_points(group="precast.libraries")}
    module = shipped if find_spec(shipped) else declared.get(library)
    return {**digests, **({library: None} if module is None else {module: _file_digest(module)})}


def _file_digest(module: str) -> str:
    """The digest of a module's file; raises ToolError where there is no such file, since the key must cover it."""
    try:
        spec = find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        advice = installing(module) or "reinstall the distribution that declares it"
        raise ToolError(f"module {module} is not found: {advice}")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


def seam_guard(library: str) -> tuple[str, str]:
    """The version of an attached library and the digest of its sources: the defaults of two keys of its kernels.

    >>> len(seam_guard("quack"))
    2
    """
    guard = library_named(library).guard()
    return guard.version, guard.source


def seam_modules(library: str) -> Iterator[str]:
    """The modules by which an attached library is prepared, and its package.

    >>> "quack" in seam_modules("quack")
    True
    """
    yield from (name for name, digest in seam_digests(library).items() if digest is not None)
    yield library_named(library).package
