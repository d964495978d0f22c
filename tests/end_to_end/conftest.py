"""Runs the command ``precast`` in a process of its own, as CI and users run it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tests.helpers.builds import kept_store
from tests.helpers.forks.forked_process import run

Run = Callable[..., "subprocess.CompletedProcess[str]"]

USER_MODULE = '''
"""A user's kernels, which do not know precast."""
import functools

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

TYPES = {"float32": cutlass.Float32, "bfloat16": cutlass.BFloat16}


@cute.kernel
def add_kernel(x: cute.Tensor, y: cute.Tensor, value: cutlass.Float32):
    i = cute.arch.block_idx()[0] * 128 + cute.arch.thread_idx()[0]
    if i < cute.size(x):
        y[i] = (x[i].to(cutlass.Float32) + value).to(y.element_type)


@cute.jit
def add_host(x: cute.Tensor, y: cute.Tensor, value: cutlass.Float32, stream):
    add_kernel(x, y, value).launch(grid=[(cute.size(x) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


def _compile(dtype):
    n = cute.sym_int()
    x, y = (make_fake_compact_tensor(TYPES[dtype], (n,), assumed_align=16) for _ in range(2))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(add_host, x, y, cutlass.Float32(0), stream, options="--enable-tvm-ffi")


def plain(dtype: str):
    print("a module may print what it likes")
    return _compile(dtype)


def closure(dtype: str):
    compiled = _compile(dtype)
    return lambda x, y, value: compiled(x, y, value)


@functools.cache
def cached(dtype: str):
    return _compile(dtype)


def failing(dtype: str):
    if dtype == "bfloat16":
        raise ValueError("this tile does not fit")
    return _compile(dtype)


def silent(dtype: str):
    return None


def twice(dtype: str):
    return _compile(dtype), _compile(dtype)
'''


@pytest.fixture(scope="session")
def precast() -> Run:
    """Run the command, in a process that is forked; its store is that of all tests."""

    def forked(*arguments: object, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PRECAST_STORE": str(kept_store()), "COLUMNS": "200", **env}
        return run(arguments, environment, cwd)

    return forked


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """A user's folder outside the repository: a module with kernels, and nothing else yet."""
    folder = tmp_path / "somewhere else"
    folder.mkdir()
    (folder / "mykernels.py").write_text(USER_MODULE)
    return folder


def manifest(folder: Path, *functions: str, dtypes: str = "[float32, bfloat16]", targets: str = "[sm_90a]") -> Path:
    """A manifest that builds some of the user's functions, each as an op of its name."""
    entries = "".join(
        f"  - compile: mykernels:{f}\n    op: user.{f}\n    config:\n      dtype: {dtypes}\n" for f in functions
    )
    path = folder / "mine.yaml"
    path.write_text(f"version: 1\nname: mine\ntargets: {targets}\npath: .\nkernels:\n{entries}")
    return path


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """A program of examples/ as a module, which nothing but this test sees; it sees what stands beside it."""
    folder = Path(__file__).parents[2] / "examples"

    def load(name: str) -> ModuleType:
        monkeypatch.syspath_prepend(folder)
        monkeypatch.delitem(sys.modules, "graphs", raising=False)
        spec = importlib.util.spec_from_file_location(f"{name}_example", folder / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
        spec.loader.exec_module(module)
        return module

    return load
