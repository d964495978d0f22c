"""A cache of everything that a manifest plans, whose kernels are all one small library.

It stands for a build where a test asks only what a program finds: to compile such kernels takes minutes.
"""

from __future__ import annotations

from pathlib import Path

from precast.build.plan.planner import plan_of, read_manifests
from precast.loader.contract.format.target import Target
from tests.helpers.caches import CacheWriter, Native, artifact


def planned_cache(manifest: Path, target: str, folder: Path) -> Path:
    """Write the cache of a manifest's variants for one target, without a compilation."""
    plan = plan_of(read_manifests([manifest]), targets=(Target.parse(target),))
    native, writer = Native(folder), CacheWriter(name=plan.name)
    writer.runtime(*native.runtime())
    blob = writer.keep(native.entry())
    for op, planned in plan.ops.items():
        variants = [variant for variant in plan.variants if op in variant.produces]
        writer.op(op, [artifact(blob, v.config, target, rank=v.rank) for v in variants], planned.keys)
    return writer.write(folder / "cache")
