"""What is built: a part of a shipped manifest, or many variants of a small kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

SMALL = """
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream


@cute.kernel
def add_kernel(x: cute.Tensor, value: cutlass.Constexpr):
    i = cute.arch.thread_idx()[0]
    if i < cute.size(x):
        x[i] = x[i] + value


@cute.jit
def add_host(x: cute.Tensor, value: cutlass.Constexpr, stream):
    add_kernel(x, value).launch(grid=[1, 1, 1], block=[128, 1, 1], stream=stream)


def add(n: int):
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(),), assumed_align=16)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(add_host, x, float(n), stream, options="--enable-tvm-ffi")
"""


def small(folder: Path, variants: int) -> Path:
    """A manifest with so many variants of a small kernel."""
    (folder / "small.py").write_text(SMALL)
    manifest = folder / "small.yaml"
    values = ", ".join(map(str, range(variants)))
    manifest.write_text(
        "version: 1\nname: small\ntargets: [sm_90a]\npath: .\n"
        f"kernels:\n  - {{compile: 'small:add', op: bench.add, config: {{n: [{values}]}}}}\n"
    )
    return manifest


def precast(*arguments: object, store: Path) -> float:
    """Run the command; the seconds of the whole process."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "precast.cli.main", *map(str, arguments)]
    subprocess.run(command, env={**os.environ, "PRECAST_STORE": str(store)}, check=True, stdout=sys.stderr)
    return time.perf_counter() - begun


def few(manifest: Path, folder: Path, variants: int) -> tuple[Path, dict[str, object]]:
    """A manifest with so many variants of the first target of another, spread over its plan; and the work as the plain
    loop takes it."""
    import yaml

    from precast.build.plan.planner import plan_of_files

    plan = plan_of_files([manifest])
    first = plan.variants[0]
    usable = [variant for variant in plan.variants if variant.target == first.target]
    chosen = usable[:: max(1, len(usable) // variants)][:variants]
    rows = [json.loads(json.dumps(variant.to_json())) for variant in chosen]
    path = folder / "few.yaml"
    entries = [{"kernel": row["op"], "include": [row["config"]]} for row in rows]
    data = {"version": 1, "name": "few", "targets": [str(first.target)], "kernels": entries}
    path.write_text(yaml.safe_dump({**data, "path": [str(p) for p in plan.search]} if plan.search else data))
    profile = plan.profiles.of(first.target).to_json()
    return path, {"search": [str(p) for p in plan.search], "profile": profile, "variants": rows}


def planned(manifest: Path, store: Path) -> Path:
    """The store, with what the kernels say of themselves noted: a plain loop plans nothing, and a build only once."""
    from precast.build.plan.planner import plan_of_files
    from precast.build.store.store import Store

    plan_of_files([manifest], notes=Store(store).notes)
    return store
