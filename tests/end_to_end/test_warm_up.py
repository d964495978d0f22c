"""Real compiled entries, made ready on a machine without a GPU: what they ask of CUDA is recorded by stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from precast.loader.contract.format.index import Index, digest
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import Native, blob_of, compiler

Run = Callable[..., "subprocess.CompletedProcess[str]"]
SHIMS = Path(__file__).with_name("shims.c")
TUPLED = """
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream


@cute.kernel
def fill(out: cute.Tensor, value: cutlass.Float32):
    out[cute.arch.thread_idx()[0]] = value


@cute.jit
def launch(out: cute.Tensor, more: tuple, stream: Any):
    value = cutlass.Float32(1) if cutlass.const_expr(more[0] is None) else more[0]
    fill(out, value).launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)


def compile_it(full: bool):
    out = make_fake_compact_tensor(cutlass.Float32, (32,), assumed_align=16)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    more = (cutlass.Float32(0), None) if full else (None, None)
    return cute.compile(launch, out, more, stream, options="--enable-tvm-ffi")
"""
MANIFEST = """
version: 1
name: ready
targets: [sm_90a]
path: [.]
kernels:
  - {compile: "tupled:compile_it", op: tupled, config: {full: [true, false]}}
  - {kernel: scale, config: {dtype: [bfloat16, float32]}}
  - {kernel: rmsnorm, config: {dtype: [bfloat16], hidden: [128, 4096]}}
"""
CHILD = """
import ctypes, json, sys
from precast import loader
from precast.loader import session
from precast.loader.machine.driver import CurrentDriver
from precast.loader.machine.machine import Machines
session.use(session.Session(machines=Machines(driver=CurrentDriver(sys.argv[1]))))
cuda = ctypes.CDLL(sys.argv[1])
done = loader.preload([(op, dict(v.config)) for op in loader.ops() for v in loader.variants(op)])
print(done, file=sys.stderr)
(runtime,) = session.default.opener.libraries.runtimes
runtime = ctypes.CDLL(None, handle=runtime.handle)
runtime.shim_stream.restype = ctypes.c_void_p
again = loader.preload([(op, dict(v.config)) for op in loader.ops() for v in loader.variants(op)])
json.dump({
    "lazy": [one.lazy for one in done.loaded],
    "ready": [done.ready, again.ready],
    "shim": [runtime.shim_count(n) for n in range(4)],
    "stream": runtime.shim_stream(),
    "driver": [cuda.fake_count(n) for n in range(8)],
    "modules": [m for m in ("torch", "tvm_ffi") if m in sys.modules],
}, sys.stdout)
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, precast: Run) -> Path:
    """A cache of real variants, whose runtime library was exchanged for one that records."""
    folder = tmp_path_factory.mktemp("ready")
    (folder / "ready.yaml").write_text(MANIFEST)
    (folder / "tupled.py").write_text(TUPLED)
    built = precast("build", folder / "ready.yaml", "-o", folder / "cache", "-j", 1)
    assert built.returncode == 0, built.stderr
    path = folder / "cache"
    index = json.loads((path / "index.json").read_bytes())
    soname = index["runtimes"][0]["soname"]
    compiler(SHIMS, f"-Wl,-soname,{soname}", "-o", folder / "shims.so")
    blob, stored = blob_of((folder / "shims.so").read_bytes())
    (path / "blobs" / blob.sha256).write_bytes(stored)
    index["runtimes"][0]["blob"] = blob.to_json()
    (path / "index.json").write_text(json.dumps(index))
    assert Index.decode((path / "index.json").read_bytes()).name == "ready"
    return path


def run(path: Path, driver: Path, **more: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, driver],
        env={**os.environ, "PRECAST_CACHE_PATH": str(path), **more},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, object] = json.loads(done.stdout)
    return result


@pytest.mark.slow
def test_every_variant_is_loaded_and_none_is_run_for_real(recorded: Path, tmp_path: Path) -> None:
    """Each entry loads its device code once and launches once, on the stream that captures; twice is once."""
    seen = run(recorded, Native(tmp_path).driver())
    assert seen["lazy"] == [""] * 6 and seen["ready"] == [True, True]
    assert seen["shim"] == [6, 6, 6, 0], "loaded, kernels found, launches, errors"
    assert seen["stream"] == 0x5150, "the launch went to the capturing stream"
    assert seen["driver"] == [6] * 8, "each capture is begun and ended, each context given back"
    assert seen["modules"] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["FAKE_RETAIN", "FAKE_PUSH", "FAKE_STREAM", "FAKE_CAPTURE"])
def test_a_driver_that_refuses(recorded: Path, tmp_path: Path, name: str) -> None:
    """It is said, nothing is launched, and what was begun is ended."""
    seen = run(recorded, Native(tmp_path).driver(), **{name: "719"})
    assert all("returned error 719" in lazy for lazy in seen["lazy"])  # type: ignore[attr-defined]
    assert seen["ready"] == [False, False]
    assert seen["shim"][:3] == [0, 0, 0]  # type: ignore[index]
    names = ("retain", "push", "pop", "stream", "capture", "end", "graph", "destroy")
    counts = dict(zip(names, seen["driver"], strict=True))  # type: ignore[call-overload]
    assert counts["pop"] == (0 if name in ("FAKE_RETAIN", "FAKE_PUSH") else 12)
    assert counts["destroy"] == (12 if name == "FAKE_CAPTURE" else 0) and counts["end"] == 0


def test_the_digest_is_the_shims(recorded: Path) -> None:
    cache = Cache(recorded)
    assert digest(cache.read(cache.index.runtimes[0].blob)) == cache.index.runtimes[0].blob.sha256
