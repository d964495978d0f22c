"""Variants that differ in tuned keys alone: what the loader chose among."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def alternatives(op: str, chosen: Any) -> Iterator[Any]:
    """The artifacts of an op that compute what a chosen kernel computes: of its kind, for its target."""
    from precast import loader

    for candidate in loader.variants(op):
        artifact = candidate.artifact
        meaning = [key.name for key in candidate.source.op.keys if not key.tuned]
        same = all(artifact.config.get(name) == chosen.config.get(name) for name in meaning)
        if same and artifact.kind == chosen.artifact.kind and artifact.target == chosen.target:
            yield artifact
