"""Host time of a call, back to back, small tensors: ours beside a bare launch from C++ and all that it replaces.

Needs a GPU and a cache with ``scale`` for float32; nvcc for the bare launch, the DSL for its own compiled object, a
cache of tests/gpu/both.yaml for the cubin.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from loader_benchmark import Result

from loader_sections._table import Table

SIZE, CALLS, ROUNDS = 1024, 500, 60
OURS, BARE = "precast", "bare launch from C++"
OVERLAPPING = f"{BARE}, which may overlap as ours"


GPU = True


def run() -> Iterator[Result]:
    """The figures, then the bounds."""
    yield from _measured().results()


def _measured() -> Table:
    """Measure every way in turns, so that a slow moment of the machine hits all of them."""
    table = Table("us")
    try:
        import torch
    except ImportError:
        table.notes.append("left out: torch is not installed")
        return table
    if not torch.cuda.is_available():
        table.notes.append("left out: there is no CUDA device")
        return table
    x, y = torch.randn(SIZE, device="cuda"), torch.empty(SIZE, device="cuda")
    ways: dict[str, Callable[[], float]] = {}
    for name, make in WAYS.items():
        try:
            ways[name] = make(x, y)
        except _Missing as reason:
            table.notes.append(f"{name} is left out: {reason}")
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()
    for _ in range(ROUNDS):
        for name, way in ways.items():
            torch.cuda.synchronize()
            rounds[name].append(way())
    torch.cuda.synchronize()
    table.figures = {name: sorted(found)[len(found) // 2] for name, found in rounds.items()}
    table.notes.append(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {SIZE} float32")
    table.bound(OURS, 1.1, BARE)
    table.bound(OURS, 1.0, "the DSL's compiled object")
    table.bound(OURS, 0.7, "torch.mul(out=)")
    table.bound(OURS, 1.0, "through tvm_ffi")
    return table


class _Missing(Exception):
    """Why something is not measured here."""


def _python(call: Callable[..., Any], *args: Any, **named: Any) -> Callable[[], float]:
    """Host microseconds a call, from Python, as a program writes it: three arguments stand in the call."""
    call(*args, **named)
    rounds = range(CALLS)

    def of_three(x: Any, y: Any, factor: Any) -> None:
        for _ in rounds:
            call(x, y, factor)

    def of_any() -> None:
        for _ in rounds:
            call(*args, **named)

    def measure() -> float:
        start = time.perf_counter()
        of_three(*args) if len(args) == 3 and not named else of_any()
        return (time.perf_counter() - start) / CALLS * 1e6

    return measure


def _kernel() -> Any:
    from precast import loader

    return loader.get("scale", {"dtype": "float32"})


def _ours(x: Any, y: Any) -> Callable[[], float]:
    return _python(_kernel(), x, y, 2.0)


def _through_tvm_ffi(x: Any, y: Any) -> Callable[[], float]:
    from precast import loader
    from precast.loader import session
    from precast.loader.launch.ffi import entry

    artifact = _kernel().artifact
    cache = next(f.cache for f in loader.caches() if f.cache and "scale" in f.cache.index.ops)
    return _python(entry(session.default.opener.libraries.load(cache, artifact), artifact.symbol), x, y, 2.0)


def _torch_op(x: Any, y: Any) -> Callable[[], float]:
    from precast import loader

    return _python(loader.torch_op(_kernel(), outputs=["out"]), x, y, 2.0)


def _mul(x: Any, y: Any) -> Callable[[], float]:
    import torch

    return _python(torch.mul, x, 2.0, out=y)


def _cubin(x: Any, y: Any) -> Callable[[], float]:
    from precast.loader import session

    cache, artifact = _cubin_of_it()
    return _python(session.default.opener.open(cache, "scale", artifact), x, y, 2.0)


def _cubin_of_it() -> tuple[Any, Any]:
    from precast import loader

    wanted = _kernel().artifact
    for found in loader.variants("scale"):
        artifact = found.artifact
        if artifact.kind != "cubin" or not artifact.launchable:
            continue
        if (artifact.config, artifact.target) == (wanted.config, wanted.target):
            cache = loader.caches()[found.source.precedence].cache
            assert cache is not None
            return cache, artifact
    raise _Missing("no cache holds it as a cubin")


def _dsl(x: Any, y: Any) -> Callable[[], float]:
    try:
        from precast.kernels.own.elementwise.scale import scale

        return _python(scale("float32"), x, y, 2.0)
    except ImportError as error:
        raise _Missing(str(error)) from None


@cache
def _bare_launch() -> Any:
    """The function of bare.cu."""
    if shutil.which("nvcc") is None:
        raise _Missing("nvcc is not on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder, "bare.so")
        source = Path(__file__).with_name("bare.cu")
        command = ["nvcc", "-O3", "-arch=native", "-Xcompiler", "-fPIC", "-shared", source, "-o", library]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise _Missing(done.stderr.strip()[-300:])
        launch = ctypes.CDLL(str(library)).bare
    launch.restype = ctypes.c_double
    return launch


def _bare(x: Any, y: Any, *, overlap: bool = False) -> Callable[[], float]:
    import torch

    if overlap and torch.cuda.get_device_capability() < (9, 0):
        raise _Missing("launches overlap from sm_90 on")
    launch = _bare_launch()
    stream = torch.cuda.current_stream().cuda_stream
    arguments = [ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_int64(SIZE)]

    def measure() -> float:
        taken = float(launch(*arguments, ctypes.c_int(CALLS), ctypes.c_void_p(stream), ctypes.c_int(overlap)))
        if taken < 0:
            raise RuntimeError("the bare launch failed: see bare.cu")
        return taken

    return measure


WAYS: dict[str, Callable[[Any, Any], Callable[[], float]]] = {
    BARE: _bare,
    OVERLAPPING: partial(_bare, overlap=True),
    OURS: _ours,
    "through tvm_ffi": _through_tvm_ffi,
    "the DSL's compiled object": _dsl,
    "torch.mul(out=)": _mul,
    "precast, as a PyTorch operator": _torch_op,
    "precast, a cubin": _cubin,
}
