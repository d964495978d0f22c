"""Keys: a variant's key changes when, and only when, something changes that can change its bytes.

What it reads, and which facts of its GPU it requests, is known only once it has compiled. Its key has therefore two
stages: ``variant_key`` is known before, and gives the names of the requested facts and inputs; with their values it
becomes ``record_key``.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Mapping
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from precast.build.errors import ToolError
from precast.build.link.linker import FLAGS
from precast.build.link.runtime import runtime_digest
from precast.build.link.toolchain import Toolchain
from precast.build.link.versions import DSL
from precast.build.plan.variant import Variant
from precast.loader.contract.format.config import canonical
from precast.loader.machine.facts import Answer

VERSION = 1  # raise it when a build makes something else out of the same inputs

# What runs a compile function of an attached library, beside the library's own file: a change may change the object.
_SEAM = (
    "precast.build.child.attached.seam",
    "precast.kernels.adapters.fake_tensors",
    "precast.attach.seams.hooks",
    "precast.attach.recordings.key_reader",
    "precast.attach.recordings.keys",
    "precast.attach.recordings.return_structure",
)


def variant_key(variant: Variant, toolchain: Toolchain, source: str) -> str:
    """The key of a variant whose source has this digest: no path, no clock, no user goes into it."""
    return hashlib.sha256(canonical(key_parts(variant, toolchain, source))).hexdigest()


def key_parts(variant: Variant, toolchain: Toolchain, source: str) -> dict[str, Any]:
    """All that a variant's key covers, by name."""
    parts: dict[str, Any] = {
        "version": VERSION,
        "variant": variant.identity,
        "parts": list(variant.parts),
        "env": dict(variant.env),
        "function": variant.source,
        "source": source,
        "host": platform.machine(),
        "runtime": runtime_digest(toolchain),
        "link": (*FLAGS, *toolchain.release.libraries),
        "tools": {name: toolchain.versions[name] for name in (DSL, "apache-tvm-ffi", "ld")},
    }
    library = variant.source.partition("@")[2]
    if library:
        parts["seam"] = dict(seam_digests(library))
    return parts


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
        raise ToolError(f"module {module} is not found: reinstall the distribution that declares it")
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()


def record_key(key: str, assumed: Mapping[str, Answer], inputs: Mapping[str, str | None] = MappingProxyType({})) -> str:
    """The key of a variant with these facts of its GPU and these inputs; the same key where it requested nothing.

    >>> record_key("0" * 64, {}) == "0" * 64
    True
    """
    if not assumed and not inputs:
        return key
    return hashlib.sha256(canonical([key, dict(assumed), dict(inputs)])).hexdigest()


def artifact_key(key: str, op: str, kind: str) -> str:
    """The key of one artifact out of a variant's: a variant may have parts, and each comes in kinds."""
    return hashlib.sha256(canonical([key, op, kind])).hexdigest()
