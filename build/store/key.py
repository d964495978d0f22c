"""Keys: a variant's key changes when, and only when, something changes that can change its bytes.

What it reads, and which facts of its GPU it requests, is known only once it has compiled. Its key has therefore two
stages: ``variant_key`` is known before, and gives the names of the requested facts and inputs; with their values it
becomes ``record_key``.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from precast.build.link.linker import FLAGS
from precast.build.link.runtime import runtime_digest
from precast.build.link.toolchain import Toolchain
from precast.build.link.versions import DSL
from precast.build.plan.variant import Variant
from precast.build.satellites import satellite
from precast.loader.contract.format.config import canonical
from precast.loader.machine.facts import Answer

VERSION = 1  # raise it when a build makes something else out of the same inputs


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
        "inputs": list(variant.inputs),
        "function": variant.source,
        "source": source,
        "host": platform.machine(),
        "runtime": runtime_digest(toolchain),
        "link": (*FLAGS, *toolchain.release.libraries),
        "tools": {name: toolchain.versions[name] for name in (DSL, "apache-tvm-ffi", "ld")},
    }
    library = variant.source.partition("@")[2]
    if library:
        parts["seam"] = dict(satellite("precast.attach.builder.seam_digests").seam_digests(library))
    return parts


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
