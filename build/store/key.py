"""Keys: a variant's key changes when, and only when, something changes that can change its bytes.

What it reads, and asks of its GPU, is known only once it has compiled. Its key has therefore two stages:
``variant_key`` is known before, and gives the names of the facts and inputs that were asked for; with their answers it
becomes ``record_key``.
"""

from __future__ import annotations

import functools
import hashlib
import platform
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from precast.build.link.linker import FLAGS
from precast.build.link.runtime import runtime_digest
from precast.build.link.toolchain import LOCK, Toolchain
from precast.build.link.versions import DSL
from precast.build.plan.variant import Variant
from precast.loader.attach import SHIPPED
from precast.loader.fast_start.installed import Installed
from precast.loader.format.config import canonical
from precast.loader.machine.facts import Answer

VERSION = 1  # raise it when a build makes something else out of the same inputs

# What runs a compile function of an attached library, beside the library's own file: a change may change the object.
_SEAM = (
    "precast.kernels.adapters.seam", "precast.kernels.adapters.fake_tensors", "precast.loader.attach.hooks",
    "precast.loader.attach.key_reader", "precast.loader.attach.keys", "precast.loader.attach.return_structure",
)  # fmt: skip


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
    if LOCK in toolchain.versions:
        parts["lock"] = toolchain.versions[LOCK]
    library = variant.source.partition("@")[2]
    if library:
        parts["seam"] = dict(seam_digests(library))
    return parts


@functools.cache
def seam_digests(library: str) -> Mapping[str, str]:
    """The digest of each file that decides how a compile function of an attached library is run.

    Each is read once, so that all keys of a build are of the same moment.

    >>> sorted(seam_digests("quack"))[-1]
    'precast.loader.attach.return_structure'
    """
    names = {name: f"precast.loader.attach.libraries.{name}" for name in SHIPPED}
    names |= dict(Installed().entry_points("precast.libraries"))
    return {module: _file_digest(module) for module in (*_SEAM, names.get(library, "")) if module}


def _file_digest(module: str) -> str:
    """The digest of a module's file; empty for a module that is not found here."""
    try:
        spec = find_spec(module)
    except ImportError:
        return ""
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest() if spec and spec.origin else ""


def record_key(key: str, assumed: Mapping[str, Answer], inputs: Mapping[str, str | None] = MappingProxyType({})) -> str:
    """The key of a variant that got these answers, of its GPU and of its inputs; the same key where it asked nothing.

    >>> record_key("0" * 64, {}) == "0" * 64
    True
    """
    if not assumed and not inputs:
        return key
    return hashlib.sha256(canonical([key, dict(assumed), dict(inputs)])).hexdigest()


def artifact_key(key: str, op: str, kind: str) -> str:
    """The key of one artifact out of a variant's: a variant may have parts, and each comes in kinds."""
    return hashlib.sha256(canonical([key, op, kind])).hexdigest()
