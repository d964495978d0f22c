"""Keys: a variant's key changes when, and only when, something changes that can change its bytes."""

from __future__ import annotations

import hashlib
import platform

from precast.build.link import FLAGS
from precast.build.plan import Variant
from precast.build.runtime import runtime_digest
from precast.build.toolchain import DSL, Toolchain
from precast.loader.config import canonical

VERSION = 1  # of what a build makes out of the same inputs: raise it when that changes


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


def artifact_key(key: str, op: str, kind: str) -> str:
    """The key of one artifact out of a variant's: a variant may have parts, and each comes in kinds."""
    return hashlib.sha256(canonical([key, op, kind])).hexdigest()
