"""Variants and plans for tests: small values without a manifest file or a compiler, and plans of manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from precast.build.errors import Location
from precast.build.plan.describer import Description
from precast.build.plan.entry import KernelRef
from precast.build.plan.manifest import parse_manifest
from precast.build.plan.plan import Plan, make_plan
from precast.build.plan.variant import Variant
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.target import Target

NORM = Description(
    op="norm",
    source="acme:norm",
    keys=tuple(Key(name=n, type="int", tuned=n == "d") for n in "abcd"),
    targets=("sm_90+",),
    declared=True,
)


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


def thousands(count: int) -> Plan:
    """A plan of ``count`` times a thousand variants of one op."""
    entry = {
        "kernel": "norm",
        "config": {"a": list(range(count)), "b": list(range(10)), "c": list(range(10))},
        "tuned": {"d": list(range(10))},
    }
    data = {"version": 1, "name": "acme", "targets": ["sm_90a"], "kernels": [entry]}
    manifest = parse_manifest(json.dumps(data).encode(), Path("m.yaml"))
    return make_plan([manifest], {KernelRef("norm"): NORM})
