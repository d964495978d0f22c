"""Variants for tests of what compiles them: small values, no manifest, no compiler."""

from __future__ import annotations

from collections.abc import Mapping

from precast.build.errors import Location
from precast.build.plan.plan import Variant
from precast.loader.format.target import Target


def variant(
    number: int, *, op: str = "mine.op", target: str = "sm_90a", env: Mapping[str, str] | None = None
) -> Variant:
    """A variant that differs from the others in one number."""
    return Variant(
        op=op,
        source="mine:op",
        config={"n": number},
        target=Target.parse(target),
        location=Location("m.yaml", 1, 1),
        env=env or {},
    )
