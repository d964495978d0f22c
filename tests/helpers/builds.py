"""Whole builds as processes of their own: a small user's module, its manifest, and the command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.helpers.forks.forked_process import run
from tests.helpers.native.compiled import folder as compiled_folder

HEAD = '''
"""A user's kernels: nothing here knows of precast."""
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


def compile_add(value):
    x = make_fake_compact_tensor(cutlass.Float32, (cute.sym_int(),), assumed_align=16)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(add_host, x, float(value), stream, options="--enable-tvm-ffi")
'''

PACKAGE = """
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from mine.shapes import vector


@cute.kernel
def add_kernel(x: cute.Tensor, y: cute.Tensor, value: cutlass.Constexpr):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        y[i] = x[i] + value


@cute.jit
def add_host(x: cute.Tensor, y: cute.Tensor, value: cutlass.Constexpr, stream):
    add_kernel(x, y, value).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


def add(value: int):
    if value == 3:
        raise ValueError("three is not for adding")
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(add_host, *vector(2), value, stream, options="--enable-tvm-ffi")
"""
SHAPES = """
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor


def vector(count):
    n = cute.sym_int()
    return [make_fake_compact_tensor(cutlass.Float32, (n,), assumed_align=16) for _ in range(count)]
"""
PACKAGE_MANIFEST = """
version: 1
name: far
targets: [sm_90a]
path: lib
kernels:
  - {compile: "mine.kernels:add", op: far.add, config: {value: [%s]}}
"""


def module(folder: Path, name: str, text: str) -> None:
    """One of the user's modules: a helper module has the kernel, this one the functions."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adding.py").write_text(HEAD)
    (folder / f"{name}.py").write_text(f"from adding import compile_add\n{text}")


def manifest(folder: Path, kernels: dict[str, list[int]], *, targets: str = "[sm_90a]", inputs: str = "{}") -> Path:
    """A manifest of functions ``module:function`` and the values of their one key ``n``."""
    entries = "".join(
        f"  - compile: {source}\n    op: user.{source.partition(':')[2]}\n    config: {{n: {values}}}\n"
        for source, values in kernels.items()
    )
    path = folder / "mine.yaml"
    path.write_text(f"version: 1\nname: mine\ntargets: {targets}\npath: .\ninputs: {inputs}\nkernels:\n{entries}")
    return path


def write_package(folder: Path, values: str) -> Path:
    """A user's package of two modules and a manifest beside it, whose op ``far.add`` takes these values; 3 fails."""
    package = folder / "home" / "lib" / "mine"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(PACKAGE)
    (package / "shapes.py").write_text(SHAPES)
    (folder / "home" / "far.yaml").write_text(PACKAGE_MANIFEST % values)
    return folder / "home" / "far.yaml"


def kept_store() -> Path:
    """The store of every test that is not about compiling, kept from run to run: a variant is compiled once.

    A test of the compilation, of the store, or of what is reused has a store of its own.
    """
    return compiled_folder() / "store"


def new_store(folder: Path) -> Path:
    """An empty store that knows what is installed: no more is kept of what tests build into it."""
    for kind in ("distributions", "owners", "reached"):
        known = kept_store() / "notes" / kind
        known.mkdir(parents=True, exist_ok=True)
        (folder / "notes").mkdir(parents=True, exist_ok=True)
        if not (folder / "notes" / kind).exists():
            (folder / "notes" / kind).symlink_to(known)
    return folder


def command(*arguments: object) -> list[str]:
    """The command line of ``precast``."""
    return [sys.executable, "-m", "precast.cli.main", *map(str, arguments)]


def environment(store: Path, **more: str) -> dict[str, str]:
    """The environment of a build with a store of its own."""
    return {**os.environ, "PRECAST_STORE": str(store), **more}


def precast(store: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, in a process that is forked: started as usual, it would import for a second.

    A store that is not there is a new one.
    """
    return run(arguments, environment(store if store.exists() else new_store(store), **more))


def succeeded(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, which must be a success; it has the store that its arguments name."""
    done = run(arguments, {**os.environ, **more})
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """What ``--json`` printed."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
