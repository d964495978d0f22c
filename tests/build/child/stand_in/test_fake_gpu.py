"""A worker looks like its target to whoever asks, and what was asked is remembered with what was built."""

from __future__ import annotations

import ctypes
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from precast.build.build_run import Options
from precast.build.builder import build
from precast.build.child.stand_in.fake_gpu import toolkit
from precast.build.compile.worker import Worker
from precast.build.gpu.gpu_table import GPUS, Fact
from precast.build.gpu.profile import Profile, Profiles, profile_named
from precast.build.inputs.closure import Closures
from precast.build.ipc.message import Message
from precast.build.plan.planner import plan_of_files
from precast.build.report import Report
from precast.build.store.store import Store
from precast.loader.contract.format.target import Target
from tests.helpers.builds import HEAD, new_store
from tests.helpers.kernels.kept_builds import kept_notes

KERNEL = f"{HEAD}\n\ncompiled = compile_add\n"

ASKING = {
    "clusters": ("cutlass.utils.HardwareInfo().get_max_active_clusters(2)", {"max_active_clusters_2": 74}),
    "cache": ("cutlass.utils.HardwareInfo(0).get_l2_cache_size_in_bytes()", {"l2_cache_size": 132644864}),
    "sms": ("cutlass.utils.HardwareInfo().get_device_multiprocessor_count()", {"multiprocessor_count": 148}),
    "driver": (
        "driver.cuDeviceGetAttribute(driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE, "
        "driver.cuDeviceGet(driver.cuInit(0)[0].value)[1])[1] + driver.cuDeviceGetCount()[1]"
        " + driver.cuDriverGetVersion()[1] + len(driver.cuDeviceGetName(64, 0)[1])"
        " + int(driver.cuCtxGetDevice()[1]) + driver.cuCtxGetCurrent()[0].value",
        {"driver_version": 13000, "name": "NVIDIA B200", "warp_size": 32},
    ),
    "runtime": (
        "runtime.cudaDeviceGetAttribute(runtime.cudaDeviceAttr.cudaDevAttrMaxSharedMemoryPerBlockOptin, 0)[1]"
        " + runtime.cudaGetDeviceProperties(0)[1].multiProcessorCount + runtime.cudaGetDeviceCount()[1]"
        " + len(runtime.cudaGetDeviceProperties(0)[1].name.decode())",
        {"max_shared_memory_per_block_optin": 232448, "multiprocessor_count": 148, "name": "NVIDIA B200"},
    ),
    "torch": (
        "torch().cuda.get_device_properties(torch().cuda.current_device()).shared_memory_per_block_optin"
        " + torch().cuda.get_device_capability()[0] + torch().cuda.is_available() + torch().cuda.device_count()"
        " + torch().cuda.current_stream().cuda_stream + len(torch().cuda.get_device_name())",
        {
            "compute_capability_major": 10,
            "compute_capability_minor": 0,
            "max_shared_memory_per_block_optin": 232448,
            "name": "NVIDIA B200",
        },
    ),
    "rank": (  # what code of the last of eight ranks queries, and what its neighbours would be told
        "torch().cuda.set_device('cuda:7') or torch().cuda.current_device() + runtime.cudaGetDevice()[1]"
        " + int(driver.cuDeviceGet(7)[1]) + int(driver.cuCtxGetDevice()[1])"
        " + torch().cuda.current_stream().device_index"
        " + cutlass.utils.HardwareInfo(7).get_device_multiprocessor_count()"
        " + torch().cuda.get_device_properties(torch().device('cuda', 3)).multi_processor_count",
        {"multiprocessor_count": 148},
    ),
    "nothing": ("7", {}),
}


def module(body: str = "") -> str:
    """A user's module with one function for each way to ask, and what else the test needs."""
    head = "from cuda.bindings import driver, runtime\n\ndef torch():\n    import torch\n    return torch\n"
    functions = "".join(
        f"\ndef ask_{name}(n: int):\n    return compiled({expression} + n)\n"
        for name, (expression, _) in ASKING.items()
    )
    return KERNEL + head + functions + body


@dataclass(frozen=True)
class Asked:
    """A worker's reply."""

    header: dict[str, Any]
    code: Sequence[bytes]


Ask = Callable[..., list[Asked]]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Ask a real worker to compile functions of a user's module, one after the other in one process.

    The worker is the same for all tests: it has a process of its own for each module.
    """
    folder, numbers = tmp_path_factory.mktemp("asks"), itertools.count()
    closures = Closures.here([folder], kept_notes())
    worker = Worker(Target.parse("sm_100a"), {}, [folder], profile_named("B200"), closures=closures)

    def start(*names: str, body: str = "") -> list[Asked]:
        user = f"user_asks{next(numbers)}"
        (folder / f"{user}.py").write_text(module(body))
        replies = []
        for name in names:
            worker.send(Message({"source": f"{user}:{name}", "config": {"n": 1}, "symbols": ["entry"], "seconds": 60}))
            message = worker.receive(120)
            replies.append(Asked(dict(message.header), message.parts))
        return replies

    yield start
    worker.kill()


def test_every_way_to_ask_is_answered_and_recorded(ask: Ask) -> None:
    replies = ask(*(f"ask_{name}" for name in ASKING))
    for (name, (_, expected)), reply in zip(ASKING.items(), replies, strict=True):
        assert "error" not in reply.header, (name, reply.header)
        assert reply.header["assumed"] == expected, name
        assert reply.code, name


@pytest.mark.slow
def test_an_answer_that_was_cached_by_the_library_counts_for_the_next_variant(ask: Ask) -> None:
    body = """
import functools

@functools.cache
def sms():
    return cutlass.utils.HardwareInfo().get_device_multiprocessor_count()

def first(n: int):
    return compiled(sms() + n)

def second(n: int):
    return compiled(sms() + n + 1)
"""
    first, second = ask("first", "second", body=body)
    assert first.header["assumed"] == second.header["assumed"] == {"multiprocessor_count": 148}


@pytest.mark.slow
def test_what_a_module_asks_when_it_is_imported_counts_for_all_its_variants(ask: Ask) -> None:
    body = """
WARP = runtime.cudaGetDeviceProperties(0)[1].warpSize
SMS = torch().cuda.get_device_properties(torch().cuda.current_device()).multi_processor_count

def first(n: int):
    return compiled(WARP + SMS + n)

def second(n: int):
    return compiled(WARP + SMS + n + 1)
"""
    first, second = ask("first", "second", body=body)
    assert first.header["assumed"] == second.header["assumed"] == {"multiprocessor_count": 148, "warp_size": 32}


def test_the_fake_gpu_imports_nothing_by_itself() -> None:
    code = """
import sys
from precast.build.child.stand_in.fact_recorder import FactRecorder
from precast.build.child.stand_in.fake_gpu import install_fake_gpu
install_fake_gpu(FactRecorder("B200", {}))
print(sorted({"torch", "cutlass", "cuda", "tvm_ffi"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_compiler_takes_the_toolkit_that_is_linked_whatever_the_machine_has() -> None:
    before = ctypes.CDLL
    version = ctypes.c_int()
    with toolkit(12090):
        assert ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0
        assert ctypes.CDLL(None)._name is None
    assert version.value == 12090
    assert ctypes.CDLL is before


@pytest.mark.slow
def test_the_compiler_in_a_worker_is_that_of_the_toolkit(ask: Ask) -> None:
    body = """
import sys

def flavor(n: int):
    assert ".cu12." in sys.modules["cutlass._mlir._mlir_libs._cutlass_ir"].__file__
    return compiled(n)
"""
    (reply,) = ask("flavor", body=body)
    assert "error" not in reply.header, reply.header


def test_the_compiler_itself_may_ask(ask: Ask) -> None:
    body = """
@cute.jit
def launch_crowded(x: cute.Tensor, stream):
    add_kernel(x, 1).launch(grid=(1, 1, 1), block=(32, 1, 1), min_blocks_per_mp=2, stream=stream)

def crowded(n: int):
    x = make_fake_compact_tensor(cutlass.Int32, (n,), assumed_align=4)
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    return cute.compile(launch_crowded, x, stream, options="--enable-tvm-ffi")
"""
    (reply,) = ask("crowded", body=body)
    assert reply.header.get("assumed") == {"max_shared_memory_per_multiprocessor": 233472}, reply.header


UNKNOWN = {
    "total_memory": "torch().cuda.get_device_properties(0).total_memory",
    "max_active_clusters_32": "cutlass.utils.HardwareInfo().get_max_active_clusters(32)",
    "memory_clock_rate": "runtime.cudaDeviceGetAttribute(runtime.cudaDeviceAttr.cudaDevAttrMemoryClockRate, 0)[1]",
}


def test_a_fact_that_no_source_gives_is_an_error_with_a_way_out(ask: Ask) -> None:
    functions = [f"\ndef {fact}(n: int):\n    return compiled({asks} + n)\n" for fact, asks in UNKNOWN.items()]
    for fact, reply in zip(UNKNOWN, ask(*UNKNOWN, body="".join(functions)), strict=True):
        error = reply.header["error"]
        assert f"profile B200 does not have '{fact}'" in error
        assert "--profile-from-device" in error and "--profile" in error


@pytest.mark.slow
def test_an_unknown_answer_is_remembered_too(ask: Ask) -> None:
    body = """
def fallback(n: int):
    try:
        return compiled(torch().cuda.get_device_properties(0).total_memory)
    except Exception:
        return compiled(n)
"""
    (reply,) = ask("fallback", body=body)
    assert reply.header["assumed"] == {"total_memory": None}


MANIFEST = """
version: 1
name: asks
targets: [sm_90a, sm_100a]
path: [.]
kernels:
  - {compile: "user_asks:ask_sms", op: sms, config: {n: 1}}
  - {compile: "user_asks:ask_cache", op: cache, config: {n: 1}}
  - {compile: "user_asks:ask_nothing", op: nothing, config: {n: 1}}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, no_torch: str) -> Iterator[Path]:
    """The user's folder, and in its store what the usual profiles need. No kernel of the manifest needs torch."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", no_torch)
        assert len(run(folder, Profiles()).built) == 6
        yield folder


def run(folder: Path, profiles: Profiles, cache: str = "cache") -> Report:
    """Build the user's manifest with these profiles."""
    (folder / "user_asks.py").write_text(module())
    (folder / "asks.yaml").write_text(MANIFEST)
    plan = plan_of_files([folder / "asks.yaml"], profiles=profiles, notes=kept_notes())
    return build(plan, folder / cache, store=Store(new_store(folder / "store")), options=Options(jobs=1))


def told(report: Report) -> set[str]:
    return {f"{v.op} {v.target}" for v in report.built}


def changed(profile: Profile, **facts: int) -> Profile:
    return replace(profile, facts={**profile.facts, **{name: Fact(value, "a test") for name, value in facts.items()}})


@pytest.mark.slow
def test_only_what_used_a_fact_is_built_again_when_it_changes(home: Path) -> None:
    b200 = profile_named("B200")
    assert told(run(home, Profiles())) == set()
    assert told(run(home, Profiles((changed(b200, warp_size=64),)))) == set()
    assert told(run(home, Profiles((changed(b200, multiprocessor_count=140),)))) == {"sms sm_100a"}
    assert told(run(home, Profiles((changed(b200, l2_cache_size=1 << 20),)))) == {"cache sm_100a"}
    # Either answer was built before: going back builds nothing.
    both = changed(b200, multiprocessor_count=140, l2_cache_size=1 << 20)
    assert told(run(home, Profiles((both,)))) == set()
    assert told(run(home, Profiles())) == set()
    # A GPU whose cache differs and whose SM count does not.
    assert told(run(home, Profiles.named(["H200"]))) == {"cache sm_90a"}


@pytest.mark.slow
def test_the_index_says_what_was_assumed_and_the_key_covers_it(home: Path) -> None:
    run(home, Profiles(), "one")
    run(home, Profiles((changed(profile_named("B200"), multiprocessor_count=140),)), "two")

    def artifacts(cache: str, op: str) -> dict[str, Any]:
        text = (home / cache / "ops" / f"{op}.json").read_text()
        return {a["target"]: a for a in json.loads(text)["artifacts"]}

    one, two = artifacts("one", "sms"), artifacts("two", "sms")
    assert one["sm_100a"]["provenance"]["assumed"] == {"multiprocessor_count": 148}
    assert one["sm_100a"]["provenance"]["profile"] == "B200"
    assert two["sm_100a"]["provenance"]["assumed"] == {"multiprocessor_count": 140}
    assert one["sm_100a"]["key"] != two["sm_100a"]["key"]
    assert one["sm_90a"] == two["sm_90a"]
    assert "assumed" not in artifacts("one", "nothing")["sm_100a"]["provenance"]


@pytest.mark.slow
def test_a_manifest_may_name_the_gpu_and_its_environment_follows(home: Path) -> None:
    (home / "user_asks.py").write_text(module())
    text = MANIFEST.replace("path:", "profiles: [H20]\npath:")
    text = text.replace("op: nothing,", 'op: nothing, env: {SMS: "${target.sm_count}"},')
    (home / "asks.yaml").write_text(text)
    notes = kept_notes()
    plan = plan_of_files([home / "asks.yaml"], notes=notes)
    assert {v.env["SMS"] for v in plan.variants if v.op == "nothing"} == {"78", "148"}
    chosen = plan_of_files([home / "asks.yaml"], profiles=Profiles.named(["H100 PCIe"]), notes=notes)
    assert {v.env["SMS"] for v in chosen.variants if v.op == "nothing"} == {"114", "148"}


def test_every_named_gpu_answers_what_compiling_asks_most() -> None:
    for name in GPUS:
        profile = profile_named(name)
        for fact in ("multiprocessor_count", "max_shared_memory_per_block_optin", "max_active_clusters_1"):
            assert isinstance(profile.answer(fact), int), (name, fact)
        assert all(fact.source for fact in profile.facts.values()), name
