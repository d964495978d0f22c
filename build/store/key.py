"""Keys: a variant's key changes when, and only when, something changes that can change its bytes.

What it asks of its GPU is known only once it has compiled. Its key has therefore two stages: ``variant_key`` is known
before, and gives the names of the facts that were asked for; with their answers it becomes ``record_key``.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping

from precast.build.gpu.profile import Answer
from precast.build.link.linker import FLAGS
from precast.build.link.runtime import runtime_digest
from precast.build.link.toolchain import DSL, Toolchain
from precast.build.plan.plan import Variant
from precast.loader.format.config import canonical

VERSION = 3  # raise it when a build makes something else out of the same inputs


def variant_key(variant: Variant, toolchain: Toolchain, source: str) -> str:
    """The key of a variant whose source has this digest: no path, no clock, no user goes into it."""
    inputs = {
        "version": VERSION,
        "variant": variant.identity,
        "parts": list(variant.parts),
        "env": dict(variant.env),
        "function": variant.source,
        "source": source,
        "host": platform.machine(),
        "runtime": runtime_digest(toolchain),
        "link": FLAGS,
        "tools": {name: toolchain.versions[name] for name in (DSL, "apache-tvm-ffi", "ld")},
    }
    return hashlib.sha256(canonical(inputs)).hexdigest()


def record_key(key: str, assumed: Mapping[str, Answer]) -> str:
    """The key of a variant that assumed these answers; the same key where it asked nothing.

    >>> record_key("0" * 64, {}) == "0" * 64
    True
    """
    return hashlib.sha256(canonical([key, dict(assumed)])).hexdigest() if assumed else key


def artifact_key(key: str, op: str, kind: str) -> str:
    """The key of one artifact out of a variant's: a variant may have parts, and each comes in kinds."""
    return hashlib.sha256(canonical([key, op, kind])).hexdigest()
