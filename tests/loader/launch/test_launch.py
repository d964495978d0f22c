"""Loading and calling: real libraries, opened from memory and called on the CPU."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precast import loader
from precast.loader.format.target import Capability
from precast.loader.launch import library
from precast.loader.launch.ffi import entry
from precast.loader.launch.kernel import Kernel, open_kernel
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.machine import Machine
from tests.helpers.caches import CacheWriter, Native, artifact, demo, run_alone

HOPPER = Machine(arch="x86_64", glibc=(2, 36), tvm_ffi="0.1.15", capability=Capability(9, 0))
BLACKWELL = replace(HOPPER, capability=Capability(10, 0))
NOWHERE = Machine(arch="x86_64", absent="libcuda.so.1 is not installed")


def first(cache: Cache, op: str = "scale", **config: object) -> Any:
    """The first artifact of an op with these values."""
    return next(a for a in cache.op(op).artifacts if all(a.config[name] == v for name, v in config.items()))


def kernel_on(cache: Cache, machine: Machine, **config: object) -> Kernel:
    chosen = first(cache, **config)
    return Kernel("scale", chosen, entry(library.load(cache, chosen), chosen.symbol), lambda: machine)


def test_an_entry_computes(cache: Cache) -> None:
    chosen = first(cache, dtype="float32", threads=256)
    function = entry(library.load(cache, chosen), chosen.symbol)
    assert function(21) == 2 * 21 + 20
    x, y = np.arange(8, dtype=np.float32), np.full(8, np.nan, dtype=np.float32)
    function(x, y, 3.0)
    assert (y == 3 * x).all()
    with pytest.raises(ValueError, match="expected an int, or x, y and a factor"):
        function("no")
    assert function(1) == 22


def test_every_variant_is_the_one_it_says(cache: Cache) -> None:
    """A memory file's number is used again and again; the linker must not hand out the library that had it before."""
    places = {"bfloat16": 0, "float16": 10, "float32": 20}
    for chosen in cache.op("scale").artifacts:
        function = entry(library.load(cache, chosen), chosen.symbol)
        assert function(0) == places[str(chosen.config["dtype"])] + (0 if chosen.config["threads"] == 256 else 1)


def test_two_caches_keep_to_their_own_runtime(native: Native, tmp_path: Path) -> None:
    caches = [Cache(demo(native, factor=f).write(tmp_path / str(f))) for f in (2, 3)]
    kernels = [kernel_on(c, BLACKWELL, dtype="bfloat16", threads=256) for c in caches]
    assert [kernel(10) for kernel in kernels] == [20, 30]


def test_one_name_for_two_runtimes_is_refused(cache: Cache, native: Native, tmp_path: Path) -> None:
    library.load(cache, first(cache))
    soname, code = native.runtime(2)
    writer = demo(native)
    writer.runtimes.clear()
    writer.runtime(soname, code + b"\0")
    other = Cache(writer.write(tmp_path / "other"))
    with pytest.raises(loader.LoadError, match="differs from the one of that name"):
        library.load(other, first(other))


def test_no_descriptor_stays_open_and_nothing_is_written(
    cache: Cache, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.load_ffi()
    monkeypatch.setattr(library, "_libraries", library.OnceTable())
    before, files = set(os.listdir("/proc/self/fd")), sorted(path.rglob("*"))
    for chosen in cache.op("scale").artifacts:
        library.load(cache, chosen)
    assert set(os.listdir("/proc/self/fd")) == before
    assert sorted(path.rglob("*")) == files


def test_the_memory_file_is_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    last: list[int] = []

    def look(path: str, label: str) -> int:
        with pytest.raises(PermissionError):
            os.write(int(path.rsplit("/", 1)[-1]), b"x")
        last[:] = [int(path.rsplit("/", 1)[-1])]
        seen.append(label)
        return 1

    monkeypatch.setattr(library, "_dlopen", look)
    record = lambda _: library.LinkRecord("/proc/self/fd/" + library.spell("0" * 64) + str(last[0]), 0)  # noqa: E731
    monkeypatch.setattr(library, "_record", record)
    library.open_bytes(b"code", "0" * 64, "precast:test")
    assert seen == ["precast:test"]


def test_threads_load_once(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = first(cache, "twice")
    opened: list[str] = []
    really = library.open_bytes

    def count(code: bytes, sha256: str, label: str) -> int:
        opened.append(sha256)
        return really(code, sha256, label)

    monkeypatch.setattr(library, "open_bytes", count)
    monkeypatch.setattr(library, "_libraries", library.OnceTable())
    barrier, results = threading.Barrier(16), []

    def work() -> None:
        barrier.wait()
        results.append(library.load(cache, chosen))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 16 and len({id(r) for r in results}) == 1
    assert opened.count(chosen.blob.sha256) == 1


def test_without_memory_files_there_is_a_reason(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "memfd_create", refuse)
    monkeypatch.setattr(library, "_libraries", library.OnceTable())
    with pytest.raises(loader.LoadError, match=r"no memory files.*allow memfd_create"):
        library.load(cache, first(cache))


def test_what_is_no_library_is_refused(native: Native, tmp_path: Path) -> None:
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    writer.op("scale", [artifact(writer.keep(b"not an ELF file"), {"dtype": "float32", "layout": "row", "threads": 1})])
    cache = Cache(writer.write(tmp_path / "cache"))
    with pytest.raises(loader.LoadError, match="dynamic linker refused precast:scale-"):
        library.load(cache, first(cache))


@pytest.mark.parametrize(("symbol", "reason"), [("__tvm_ffi_other", "has no symbol"), ("system", "no TVM-FFI entry")])
def test_only_its_own_entry_is_taken(cache: Cache, symbol: str, reason: str) -> None:
    chosen = replace(first(cache), symbol=symbol)
    with pytest.raises(loader.LoadError, match=reason):
        entry(library.load(cache, chosen), chosen.symbol)


def test_a_kernel_without_a_device_says_so(cache: Cache) -> None:
    kernel = kernel_on(cache, NOWHERE, dtype="float32")
    assert kernel.obstacle is not None and "libcuda.so.1 is not installed" in kernel.obstacle
    for _ in range(2):
        with pytest.raises(loader.NoCudaDevice, match="Run this on a machine with an NVIDIA GPU"):
            kernel(1)


def test_a_kernel_for_another_device_says_so(cache: Cache) -> None:
    kernel = kernel_on(cache, replace(HOPPER, capability=Capability(10, 3)), dtype="float32")
    with pytest.raises(loader.WrongDevice, match=r"built for sm_100a, and the device is 10\.3"):
        kernel(1)


def test_a_kernel_asks_about_the_device_once(cache: Cache) -> None:
    asked = []

    def machine() -> Machine:
        asked.append(1)
        return BLACKWELL

    kernel = Kernel("scale", first(cache), lambda *args: args, machine)
    assert [kernel(1), kernel(2)] == [(1,), (2,)] and len(asked) == 1


def test_a_kernel_takes_names(cache: Cache) -> None:
    chosen = next(a for a in cache.op("scale").artifacts if str(a.target) == "sm_90a")
    kernel = Kernel("scale", chosen, lambda *args: args, lambda: HOPPER)
    assert kernel.obstacle is None
    assert kernel(1, 2, 3) == kernel(1, factor=3, y=2) == kernel(factor=3, x=1, y=2) == (1, 2, 3)
    with pytest.raises(TypeError, match="no argument 'z': it takes x, y, factor"):
        kernel(1, 2, z=3)
    with pytest.raises(TypeError, match="'x' twice"):
        kernel(1, 2, x=3)
    with pytest.raises(TypeError, match="misses y"):
        kernel(1, factor=3)


def test_a_kernel_explains_itself(cache: Cache) -> None:
    import pydoc

    kernel = open_kernel(cache, "scale", first(cache, dtype="bfloat16", threads=128))
    assert repr(kernel) == (
        "<Kernel scale {dtype: bfloat16, layout: row, threads: 128} sm_100a"
        " (x: bfloat16[n], y: bfloat16[n], factor: float32)>"
    )
    text = pydoc.plain(pydoc.render_doc(kernel))
    assert "compiled for sm_100a" in text and "x: bfloat16[n]" in text and "n is an int32 that 8 divides" in text
    with pytest.raises(TypeError):
        kernel.config["dtype"] = "float32"  # type: ignore[index]


# Python 3.12 warns of every fork beside threads, of which torch has some; that is what this test is about.
FORKING = "error,ignore:This process:DeprecationWarning"
SCRIPT = """
import os, sys
from precast import loader
kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
child = os.fork()
if child == 0:
    again = loader.get("scale", {"dtype": "f16"}, target="sm_90a")
    sound = kernel._function(4) == 8 and again._function(4) == 18
    os._exit(0 if sound else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_loads_and_calls(path: Path) -> None:
    run_alone(SCRIPT, path, FORKING)


def test_import_is_light(path: Path) -> None:
    heavy = "torch tvm_ffi cutlass yaml zstandard ctypes.util typer numpy importlib.metadata email"
    run_alone(f"import sys; from precast.loader import *; assert not set({heavy!r}.split()) & set(sys.modules)", path)


def test_no_gpu_no_torch_no_compiler(path: Path) -> None:
    run_alone(
        "import sys; sys.modules['torch'] = sys.modules['cutlass'] = None\n"
        "from precast import loader\n"
        "kernel = loader.get('scale', {'dtype': 'bf16'}, target='sm_90a')\n"
        "assert kernel._function(5) == 10",
        path,
    )


def test_get_is_the_same_kernel_each_time(path: Path, use: Callable[..., None]) -> None:
    use(path)
    kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    assert kernel.config["threads"] == 256, "the author's order decides"
    assert loader.get("scale", {"dtype": "bfloat16"}, target="sm_90a") is kernel
    assert loader.get("scale", {"dtype": "bf16", "threads": 256}, target="sm_90a") is kernel
    assert loader.get("scale", {"dtype": "bf16", "threads": 128}, target="sm_90a") is not kernel
    with pytest.raises(loader.ConfigError, match=r"threads: expected int, not 256\.0"):
        loader.get("scale", {"dtype": "bf16", "threads": 256.0}, target="sm_90a")
