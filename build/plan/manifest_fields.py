"""The fields of a manifest, by name: which a file has, and which an entry of each kind. ``docs/manifest.md`` describes
them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ROOT_FIELDS = ("version", "name", "targets", "profiles", "path", "inputs", "tuning", "kernels")
"""The fields at the top of a manifest."""

_SHARED = ("targets", "env", "inputs", "skip_unsupported")
_ROWS = ("config", "include", "exclude")
_BUILT = (*_ROWS, "tuned", "emit", "parts", "problems", *_SHARED)
FIELDS_OF_KIND: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "kernel": ("kernel", *_BUILT),
        "compile": ("compile", "op", "speed_only", *_BUILT),
        "call": ("call", "with", "backward", "libraries", *_ROWS, *_SHARED),
        "script": ("script", "arguments", "libraries", *_SHARED),
    }
)
"""The kinds of entries, by the field that makes an entry one, each with all fields that it may have."""

ENTRY_FIELDS = tuple(dict.fromkeys(name for fields in FIELDS_OF_KIND.values() for name in fields))
"""The fields of entries of all kinds."""
