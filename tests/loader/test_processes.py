"""Many threads, many processes, forks, caches that are replaced: what one process does to another, and to itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from precast import loader
from precast.loader.contract.format.config import Key
from precast.loader.contract.format.target import Capability
from precast.loader.machine.machine import Machines
from tests.helpers.caches import NUMBER_MARK as MARK
from tests.helpers.caches import NUMBER_SOURCE as SOURCE
from tests.helpers.caches import CacheWriter, Native, artifact, compiler, demo, run_alone
from tests.helpers.loader_fixtures import Use

VARIANTS = 200


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of 200 variants, each a library that answers with its own number."""
    folder = tmp_path_factory.mktemp("many")
    native = Native(folder)
    (folder / "n.c").write_text(SOURCE.replace("precast_test_number", "__tvm_ffi_number"))
    compiler(folder / "n.c", "-o", folder / "n.so")
    code = (folder / "n.so").read_bytes()
    assert code.count(MARK) == 1
    writer = CacheWriter(name="many")
    writer.runtime(*native.runtime())
    rows = []
    for n in range(VARIANTS):
        blob = writer.keep(code.replace(MARK, n.to_bytes(4, "little")))
        rows.append(artifact(blob, {"number": n}, symbol="__tvm_ffi_number"))
    writer.op("number", rows, keys=(Key(name="number", type="int"),))
    return writer.write(folder / "many")


CROWD = """
import collections, ctypes, os, random, sys, threading
from precast import loader
from precast.loader import session
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.launch.library import Libraries, open_bytes

# Without tvm_ffi: the test calls the function of a library itself.
opened = collections.Counter()
def counting(code, sha256, label):
    opened[sha256] += 1
    return open_bytes(code, sha256, label)
class Plain:
    def __init__(self, artifact, library):
        self.artifact, self.library = artifact, library
class LibraryOpener(KernelOpener):
    def open(self, cache, op, artifact, device=None):
        return Plain(artifact, self.libraries.load(cache, artifact))
session.use(session.Session(opener=LibraryOpener(None, Libraries(counting))))

def work(seed):
    order = list(range(200)) * 2
    random.Random(seed).shuffle(order)
    barrier.wait()
    for n in order:
        kernel = loader.get("number", {"number": n}, target="sm_90a")
        answer = ctypes.CDLL(None, handle=kernel.library.handle)["__tvm_ffi_number"]()
        if answer != n:
            wrong.append((n, answer))
        kernels[n].add(id(kernel))

wrong, kernels, barrier = [], collections.defaultdict(set), threading.Barrier(THREADS)
threads = [threading.Thread(target=work, args=(int(sys.argv[1]) * 100 + t,)) for t in range(THREADS)]
for t in threads: t.start()
for t in threads: t.join()
assert not wrong, wrong[:5]
assert len(kernels) == 200 and all(len(ids) == 1 for ids in kernels.values()), "each variant is one kernel"
assert set(opened.values()) == {1}, "each library is opened once"
assert loader.stats().loads == 200 and loader.stats().misses == 0
"""


@pytest.mark.slow
def test_32_threads_and_8_processes(many: Path) -> None:
    before = {p: p.stat().st_mtime_ns for p in many.rglob("*")}
    many.chmod(0o555)
    try:
        code, env = CROWD.replace("THREADS", "32"), {**os.environ, "PRECAST_CACHE_PATH": str(many)}
        running = [
            subprocess.Popen([sys.executable, "-c", code, str(n)], env=env, stderr=subprocess.PIPE, text=True)
            for n in range(8)
        ]
        for one in running:
            _, said = one.communicate(timeout=240)
            assert one.returncode == 0, said
    finally:
        many.chmod(0o755)
    assert {p: p.stat().st_mtime_ns for p in many.rglob("*")} == before, "nothing was written"


FORKS = """
import ctypes, os, sys, threading
from precast import loader
from precast.loader import session
from precast.loader.launch.kernel_opener import KernelOpener
class LibraryOpener(KernelOpener):
    def open(self, cache, op, artifact, device=None):
        library = self.libraries.load(cache, artifact)
        return lambda: ctypes.CDLL(None, handle=library.handle)["__tvm_ffi_number"]()
session.use(session.Session(opener=LibraryOpener(None)))
def get(n):
    return loader.get("number", {"number": n}, target="sm_90a")
def check(*numbers):
    for n in numbers:
        assert get(n)() == n
"""


def test_fork_after_import_only(many: Path) -> None:
    run_alone(
        FORKS + "child = os.fork()\n"
        "check(1, 2, 3)\n"
        "if child == 0: os._exit(0)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
        many,
    )


def test_fork_while_threads_load(many: Path) -> None:
    """A lock that another thread holds at the fork is free in the child."""
    run_alone(
        FORKS + "stop = threading.Event()\n"
        "def busy():\n"
        "    for n in range(100):\n"
        "        check(n)\n"
        "    stop.set()\n"
        "threads = [threading.Thread(target=busy) for _ in range(4)]\n"
        "for t in threads: t.start()\n"
        "statuses = []\n"
        "for round in range(12):\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        check(*range(100, 110), *range(5))\n"
        "        os._exit(0)\n"
        "    statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "for t in threads: t.join()\n"
        "assert statuses == [0] * 12, statuses",
        many,
    )


def test_fork_before_an_opened_library_has_its_own_path(many: Path) -> None:
    """Until then it has a path that the child would take for another library's."""
    run_alone(
        FORKS + "import time\n"
        "from precast.loader.launch import library\n"
        "opened, rename = threading.Event(), library._rename\n"
        "def late(handle):\n"
        "    opened.set()\n"
        "    time.sleep(0.3)\n"
        "    rename(handle)\n"
        "library._rename = late\n"
        "thread = threading.Thread(target=check, args=(1,))\n"
        "thread.start()\n"
        "assert opened.wait(30)\n"
        "child = os.fork()\n"
        "library._rename = rename\n"
        "if child == 0:\n"
        "    check(1, 2)\n"
        "    os._exit(0)\n"
        "thread.join()\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0",
        many,
    )


def test_spawned_workers(many: Path) -> None:
    run_alone(
        "import multiprocessing as m\n"
        "from precast import loader\n"
        "if __name__ == '__main__':\n"
        "    with m.get_context('spawn').Pool(2) as pool:\n"
        "        assert pool.map(len, [loader.ops()] * 2) == [1, 1]\n",
        many,
    )


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_cache_replaced_while_a_process_runs(native: Native, tmp_path: Path, use: Use) -> None:
    """What is loaded goes on working; what the old index promises and the new cache lacks says what to do."""
    path = demo(native, offset=70).write(tmp_path / "demo")
    newer = demo(native, offset=500, factor=3).write(tmp_path / "newer")
    use(path, machines=Machines(replace(Machines().host, capability=Capability(9, 0))))
    old = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
    shutil.rmtree(path)
    newer.rename(path)
    assert old(10) == 90
    assert loader.get("scale", {"dtype": "bf16"}, target="sm_90a") is old
    with pytest.raises(loader.IntegrityError, match=r"missing.*if it was replaced while this process ran, restart"):
        loader.get("scale", {"dtype": "f16"}, target="sm_90a")
    loader.caches(refresh=True)
    assert loader.get("scale", {"dtype": "f16"}, target="sm_90a")(10) == 30 + 510, "the new one"
    assert old(10) == 90
    shutil.rmtree(path)
    with pytest.raises(loader.CacheError, match=r"reinstall|give the directory|no folder"):
        loader.get("scale", {"dtype": "f32"}, target="sm_90a")


def test_frozen(path: Path, use: Use) -> None:
    use(path)
    loader.preload([("scale", {"dtype": "bf16"})], target="sm_90a")
    before = loader.stats()
    loader.freeze()
    try:
        assert loader.get("scale", {"dtype": "bf16"}, target="sm_90a").op == "scale"
        assert loader.get("scale", {"dtype": "bfloat16", "threads": 256}, target="sm_90a").op == "scale"
        with pytest.raises(loader.Frozen, match=r"scale \{dtype: float16.*preload it before"):
            loader.get("scale", {"dtype": "f16"}, target="sm_90a")
        with pytest.raises(loader.Frozen):
            loader.preload([("scale", {"dtype": "f16"})], target="sm_90a")
        assert loader.stats().loads == before.loads
    finally:
        loader.freeze(False)
    assert loader.get("scale", {"dtype": "f16"}, target="sm_90a").op == "scale"
    with pytest.raises(loader.VariantNotFound):
        loader.get("scale", {"dtype": "int8"}, target="sm_90a")
    after = loader.stats()
    assert (after.loads, after.misses) == (before.loads + 1, before.misses + 1)
    assert after.stored > before.stored and after.seconds > before.seconds and "loaded (" in str(after)


BESIDE = """
import ctypes, sys
if ORDER == "before": import cutlass, cutlass.cute
from dataclasses import replace
from precast import loader
from precast.loader import session
from precast.loader.contract.format.target import Capability
from precast.loader.machine.machine import Machines
session.use(session.Session(machines=Machines(replace(Machines().host, capability=Capability(9, 0)))))
first = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
if ORDER == "after": import cutlass, cutlass.cute
second = loader.get("scale", {"dtype": "f16"}, target="sm_90a")
assert (first(10), second(10)) == (20, 30)
import precast.kernels.own.elementwise.scale as s
compiled = s.scale("bfloat16")  # the DSL compiles beside
assert "cutlass" in sys.modules and (first(10), second(10)) == (20, 30)
third = loader.get("scale", {"dtype": "f32"}, target="sm_90a")
assert third(10) == 40
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ["before", "after"])
def test_beside_the_compiler(path: Path, order: str) -> None:
    warnings = "default" if "t" in sys.abiflags else "error"  # there the DSL switches the global lock on, and warns
    run_alone(f"import os\nos.environ['CUTE_DSL_ARCH'] = 'sm_90a'\nORDER = {order!r}\n" + BESIDE, path, warnings)


def test_each_library_binds_to_its_own_runtime(native: Native, tmp_path: Path) -> None:
    """Two caches of two compilers in one process: the linker itself says which symbol each was bound to."""
    paths = [demo(native, name=f"c{f}", factor=f).write(tmp_path / f"c{f}") for f in (2, 3)]
    code = (
        "from precast import loader\n"
        "from precast.loader.launch.kernel_opener import KernelOpener\n"
        "from precast.loader.contract.format.target import Capability\n"
        "from precast.loader.machine.machine import Machine\n"
        "opener = KernelOpener(lambda device: Machine(arch='any', capability=Capability(10, 0)))\n"
        "seen = []\n"
        "for found in loader.caches():\n"
        "    artifact = found.cache.op('scale').artifacts[0]\n"
        "    seen.append(opener.open(found.cache, 'scale', artifact)(100) // 100)\n"
        "assert seen == [2, 3], seen\n"
    )
    env = {**os.environ, "PRECAST_CACHE_PATH": ":".join(map(str, paths)), "LD_DEBUG": "bindings"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    bound = [line for line in done.stderr.splitlines() if "symbol `precast_test_scale'" in line]
    assert len(bound) == 2 and bound[0].split(" to ")[1] != bound[1].split(" to ")[1], bound
