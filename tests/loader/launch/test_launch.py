"""Loading and calling: real libraries, opened from memory and called on the CPU."""

from __future__ import annotations

import os
import platform
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from precast import loader
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.format.signature import Symbol
from precast.loader.contract.format.target import Capability
from precast.loader.launch import library
from precast.loader.launch.ffi import entry
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.launch.library import Libraries
from precast.loader.machine.machine import Machine, Machines
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import Request
from precast.loader.session import Session
from tests.helpers.caches import SCALE_KEYS, CacheWriter, Native, artifact, demo, run_alone
from tests.helpers.loader_fixtures import Use

HOPPER = Machine(arch=platform.machine(), glibc=(2, 36), tvm_ffi="0.1.15", capability=Capability(9, 0))
BLACKWELL = replace(HOPPER, capability=Capability(10, 0))
NOWHERE = Machine(arch=platform.machine(), absent="libcuda.so.1 is not installed")


@pytest.fixture
def libraries() -> Libraries:
    return Libraries()


def first(cache: Cache, op: str = "scale", **config: Any) -> Artifact:
    """The first artifact of an op with these values."""
    return next(a for a in cache.op(op).artifacts if all(a.config[name] == v for name, v in config.items()))


def kernel_on(cache: Cache, machine: Machine, **config: Any) -> Kernel:
    chosen = first(cache, **config)
    return Kernel("scale", chosen, entry(Libraries().load(cache, chosen), chosen.symbol), lambda: machine)


def test_an_entry_computes(cache: Cache, libraries: Libraries) -> None:
    chosen = first(cache, dtype="float32", threads=256)
    function = entry(libraries.load(cache, chosen), chosen.symbol)
    assert function(21) == 2 * 21 + 20
    x, y = np.arange(8, dtype=np.float32), np.full(8, np.nan, dtype=np.float32)
    function(x, y, 3.0)
    assert (y == 3 * x).all()
    with pytest.raises(ValueError, match="expected an int, or x, y and a factor"):
        function("no")
    assert function(1) == 22


def test_every_variant_is_the_one_it_says(cache: Cache, libraries: Libraries) -> None:
    """A memory file's number is used again and again; the linker must not hand out the library that had it before."""
    places = {"bfloat16": 0, "float16": 10, "float32": 20}
    for chosen in cache.op("scale").artifacts:
        function = entry(libraries.load(cache, chosen), chosen.symbol)
        assert function(0) == places[str(chosen.config["dtype"])] + (0 if chosen.config["threads"] == 256 else 1)


def test_two_caches_keep_to_their_own_runtime(native: Native, tmp_path: Path) -> None:
    caches = [Cache(demo(native, factor=f).write(tmp_path / str(f))) for f in (2, 3)]
    kernels = [kernel_on(c, BLACKWELL, dtype="bfloat16", threads=256) for c in caches]
    assert [kernel(10) for kernel in kernels] == [20, 30]


@pytest.mark.parametrize("sessions", [1, 2])
def test_one_name_for_two_runtimes_is_refused(cache: Cache, native: Native, tmp_path: Path, sessions: int) -> None:
    """Whoever opened the first one: the linker, not a table of ours, knows what is open."""
    libraries = Libraries()
    libraries.load(cache, first(cache))
    soname, code = native.runtime(2)
    writer = demo(native)
    writer.runtimes.clear()
    writer.runtime(soname, code + b"\0")
    other = Cache(writer.write(tmp_path / "other"))
    others = libraries if sessions == 1 else Libraries()
    with pytest.raises(loader.LoadError, match="differs from the one of that name"):
        others.load(other, first(other))


def test_two_sessions_in_one_process(cache: Cache, path: Path) -> None:
    """Each loads for itself, and counts for itself; both answer."""
    one, two = (Session(str(path), machines=Machines(HOPPER)) for _ in range(2))
    kernels = [s.get(Request(op="scale", config={"dtype": "bf16"})) for s in (one, two)]
    assert kernels[0] is not kernels[1] and [kernel(10) for kernel in kernels] == [20, 20]
    assert (one.stats.loads, two.stats.loads) == (1, 1)
    one.frozen = True
    with pytest.raises(loader.Frozen):
        one.get(Request(op="scale", config={"dtype": "f16"}))
    assert two.get(Request(op="scale", config={"dtype": "f16"}))(10) == 30


def test_no_descriptor_stays_open_and_nothing_is_written(cache: Cache, path: Path, libraries: Libraries) -> None:
    library.load_ffi()
    before, files = set(os.listdir("/proc/self/fd")), sorted(path.rglob("*"))
    for chosen in cache.op("scale").artifacts:
        libraries.load(cache, chosen)
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
    record = lambda _: library.LinkInfo("/proc/self/md/" + library.digest_path("0" * 64) + str(last[0]), 0)  # noqa: E731
    monkeypatch.setattr(library, "_link_info", record)
    library.open_bytes(b"code", "0" * 64, "precast:test")
    assert seen == ["precast:test"]


def test_threads_load_once(cache: Cache) -> None:
    chosen = first(cache, "twice")
    opened: list[str] = []

    def count(code: bytes, sha256: str, label: str) -> int:
        opened.append(sha256)
        return library.open_bytes(code, sha256, label)

    libraries = Libraries(count)
    barrier, results = threading.Barrier(16), []

    def work() -> None:
        barrier.wait()
        results.append(libraries.load(cache, chosen))

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
    with pytest.raises(loader.LoadError, match=r"no memory files.*allow memfd_create"):
        Libraries().load(cache, first(cache))


def test_what_is_no_library_is_refused(native: Native, tmp_path: Path, libraries: Libraries) -> None:
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    writer.op("scale", [artifact(writer.keep(b"not an ELF file"), {"dtype": "float32", "layout": "row", "threads": 1})])
    cache = Cache(writer.write(tmp_path / "cache"))
    with pytest.raises(loader.LoadError, match="dynamic linker refused precast:scale-"):
        libraries.load(cache, first(cache))


def test_a_symbol_of_a_library_that_it_needs_is_not_its_own(cache: Cache, libraries: Libraries) -> None:
    opened = libraries.load(cache, first(cache))
    with pytest.raises(loader.LoadError, match="has no symbol malloc: rebuild the cache"):
        opened.address("malloc")


@pytest.mark.parametrize(
    ("symbol", "reason"), [("__tvm_ffi_other", "has no symbol"), ("system", "not a TVM-FFI entry")]
)
def test_only_its_own_entry_is_taken(cache: Cache, libraries: Libraries, symbol: str, reason: str) -> None:
    chosen = replace(first(cache), symbol=symbol)
    with pytest.raises(loader.LoadError, match=reason):
        entry(libraries.load(cache, chosen), chosen.symbol)


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


def opened(cache: Cache, machine: Machine = BLACKWELL, **config: Any) -> Kernel:
    return KernelOpener(lambda device: machine).open(cache, "scale", first(cache, **config))


def test_a_kernel_explains_itself(cache: Cache) -> None:
    kernel = opened(cache, dtype="bfloat16", threads=128)
    assert repr(kernel) == (
        "<Kernel scale {dtype: bfloat16, layout: row, threads: 128} sm_100a"
        " (x: bfloat16[n], y: bfloat16[n], factor: float32)>"
    )
    config: Any = kernel.config
    with pytest.raises(TypeError):
        config["dtype"] = "float32"


def test_help_shows_the_authors_words_first(native: Native, tmp_path: Path) -> None:
    """Then the signature, with what a caller must keep to; of the symbols only what is not an ordinary number."""
    import pydoc

    writer = demo(native)
    rows = writer.ops["scale"].artifacts
    symbols = {f"n{i}": Symbol(dtype="int32") for i in range(30)} | {"n": Symbol(dtype="int32", divisibility=8)}
    row = replace(rows[0], signature=replace(rows[0].signature, symbols=symbols))
    writer.ops["scale"] = OpIndex.of(
        op="scale", keys=SCALE_KEYS, doc="Multiply a vector.\n\nBy a factor.", artifacts=(row,)
    )
    cache = Cache(writer.write(tmp_path / "cache"))
    text = pydoc.plain(pydoc.render_doc(opened(cache)))
    assert (
        text.index("Multiply a vector.")
        < text.index("compiled for")
        < text.index(f"x: {row.config['dtype']}[n], aligned to 16 bytes")
    )
    assert "n: int32, multiple of 8" in text and "n0" not in text


# Python 3.12 warns of every fork beside threads, of which torch has some; that is what this test is about.
FORKING = "error,ignore:This process:DeprecationWarning"
SCRIPT = """
import os, sys
from precast import loader
from dataclasses import replace
from precast.loader import session
from precast.loader.contract.format.target import Capability
from precast.loader.machine.machine import Machines
session.use(session.Session(machines=Machines(replace(Machines().host, capability=Capability(9, 0)))))
kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
child = os.fork()
if child == 0:
    again = loader.get("scale", {"dtype": "f16"}, target="sm_90a")
    sound = kernel(4) == 8 and again(4) == 18
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
        "from precast.loader.session import Session\n"
        "from precast.loader.contract.format.target import Capability\n"
        "from precast.loader.machine.machine import Machines, replace\n"
        "from precast.loader.resolve.candidate import Request\n"
        "here = Machines(replace(Machines().host, capability=Capability(9, 0)))\n"
        "kernel = Session(machines=here).get(Request(op='scale', config={'dtype': 'bf16'}))\n"
        "assert kernel(5) == 10",
        path,
    )


def test_get_is_the_same_kernel_each_time(path: Path, use: Use) -> None:
    use(path)
    kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    assert kernel.config["threads"] == 256, "the author's order decides"
    assert loader.get("scale", {"dtype": "bfloat16"}, target="sm_90a") is kernel
    assert loader.get("scale", {"dtype": "bf16", "threads": 256}, target="sm_90a") is kernel
    assert loader.get("scale", {"dtype": "bf16", "threads": 128}, target="sm_90a") is not kernel
    with pytest.raises(loader.ConfigError, match=r"threads: expected int, got 256\.0"):
        loader.get("scale", {"dtype": "bf16", "threads": 256.0}, target="sm_90a")
