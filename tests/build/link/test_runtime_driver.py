"""What the driver answers in place of the CUDA runtime, and what is left to that (both are a stand-in)."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from precast.build.link import runtime
from tests.helpers.gpu.launches import in_threads
from tests.helpers.source_tree import ROOT

SOURCE = next(path for path in runtime.SOURCES if path.name == "runtime_driver.c")
STAND_IN = ROOT / "tests" / "helpers" / "native" / "cuda_runtime.c"
CLUSTER = 4  # an attribute of a launch
LEFT = 9  # what the stand-in of the CUDA runtime returns of a launch
KERNEL = 0x7F0000001000


class Attribute(ctypes.Structure):
    _fields_ = (("id", ctypes.c_int32), ("padding", ctypes.c_int32), ("value", ctypes.c_uint64 * 8))


class Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_size_t),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint32),
    )  # fmt: skip


class Seen(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("gets", "sets", "unloads", "launches", "others")),
        *((name, ctypes.c_int32) for name in ("functions", "driven", "asked")),
        *((name, ctypes.c_int32) for name in ("device", "context", "missing", "failing", "refused", "worded")),
        *((name, ctypes.c_uint64) for name in ("function", "stream", "attributes")),
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
    )  # fmt: skip


class Runtime:
    """The functions of one fresh copy of the runtime library's part."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.seen: Any = Seen.in_dll(self.library, "seen")
        self.seen.context, self.seen.worded = 1, LEFT

    def launch(self, kernel: int = KERNEL, **changed: Any) -> int:
        config = Config((2, 3, 4), (5, 6, 7), 8, 9, None, 0)
        for name, value in changed.items():
            setattr(config, name, value)
        return int(self.library["__wrap_cudaLaunchKernelExC"](ctypes.byref(config), ctypes.c_void_p(kernel), None))

    def device(self) -> int:
        return self.number("cudaGetDevice")

    def number(self, name: str, *rest: int) -> int:
        """What a function writes into its first argument."""
        found = ctypes.c_int()
        assert self.library[f"__wrap_{name}"](ctypes.byref(found), *rest) == 0
        return found.value

    def library_of(self, code: int = 0x1000, jit: int = 0, options: int = 0) -> int:
        """A library that was loaded."""
        found, none = ctypes.c_void_p(), ctypes.c_void_p()
        load = self.library["__wrap_cudaLibraryLoadData"]
        assert load(ctypes.byref(found), ctypes.c_void_p(code), none, none, jit, none, none, options) == 0
        return found.value or 0

    def kernel_of(self, library: int, name: bytes = b"four") -> int:
        """A kernel of a library."""
        found = ctypes.c_void_p()
        get = self.library["__wrap_cudaLibraryGetKernel"]
        assert get(ctypes.byref(found), ctypes.c_void_p(library), name) == 0
        return found.value or 0

    def entry_point(self, name: bytes) -> tuple[int | None, int, int]:
        """The address of a function of the driver, how that went, and what was returned."""
        found, result = ctypes.c_void_p(), ctypes.c_int(7)
        find = self.library["__wrap_cudaGetDriverEntryPointByVersion"]
        status = find(name, ctypes.byref(found), 12000, ctypes.c_ulonglong(1), ctypes.byref(result))
        return found.value, result.value, status


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runtime") / "runtime.so"
    flags = [flag for flag in runtime.COMPILE if "visibility" not in flag]
    flags += [
        f"-Ddl{name}=stand_in_{stands}" for name, stands in (("open", "open"), ("sym", "symbol"), ("close", "close"))
    ]
    subprocess.run(["gcc", *flags, "-Wno-pedantic", "-shared", SOURCE, STAND_IN, "-o", path], check=True)
    return path


@pytest.fixture
def fresh(built: Path, tmp_path: Path) -> Runtime:
    return Runtime(Path(shutil.copy(built, tmp_path / "fresh.so")))


def test_the_driver_knows_the_device(fresh: Runtime) -> None:
    fresh.seen.device = 2
    assert (fresh.device(), fresh.seen.gets) == (2, 0)
    fresh.seen.context = 0
    assert (fresh.device(), fresh.seen.gets) == (-7, 1)


def test_a_device_that_is_current_is_not_made_current(fresh: Runtime) -> None:
    for device in (0, 0, 1, 1, 0):
        assert fresh.library["__wrap_cudaSetDevice"](device) == 0
    assert fresh.seen.sets == 2
    for unusual in (-1, 64, 5):
        fresh.library["__wrap_cudaSetDevice"](unusual)
    fresh.seen.context = 0
    fresh.library["__wrap_cudaSetDevice"](5)
    assert fresh.seen.sets == 6


def test_a_launch_is_the_same_by_the_function(fresh: Runtime) -> None:
    attributes = (Attribute * 1)(Attribute(CLUSTER))
    assert fresh.launch(attributes=attributes, count=1) == 0
    seen = fresh.seen
    assert (list(seen.grid), list(seen.block), seen.shared, seen.stream) == ([2, 3, 4], [5, 6, 7], 8, 9)
    assert (seen.attributes, seen.count, seen.function) == (ctypes.addressof(attributes), 1, KERNEL + 1)
    assert fresh.launch() == 0 and (seen.functions, seen.driven, seen.launches) == (1, 2, 0)


def test_another_context_launches_by_the_kernel(fresh: Runtime) -> None:
    """The driver then finds the function in the current context."""
    found = []
    for context in (1, 2, 1, 3, 1):
        fresh.seen.context = context
        found.append((fresh.launch(), fresh.seen.function - KERNEL))
    assert found == [(0, 1), (0, 0), (0, 1), (0, 0), (0, 1)]
    assert fresh.launch(KERNEL + 64) == 0 and fresh.seen.function == KERNEL + 64 + 1


def test_a_launch_that_fails_is_worded_by_the_runtime(fresh: Runtime) -> None:
    fresh.seen.failing = 2
    assert (fresh.launch(), fresh.seen.launches, fresh.seen.driven) == (LEFT, 1, 0)
    fresh.seen.worded = 98  # it does not know the kernel
    assert fresh.launch() == 400
    fresh.seen.failing = 0
    assert fresh.launch() == 0


def test_a_kernel_whose_function_is_not_found_is_launched_itself(fresh: Runtime) -> None:
    fresh.seen.failing = 1
    assert (fresh.launch(), fresh.seen.function) == (0, KERNEL)
    fresh.seen.failing = 0
    assert (fresh.launch(), fresh.seen.function) == (0, KERNEL + 1)


def test_shared_memory_that_no_launch_can_have(fresh: Runtime) -> None:
    assert (fresh.launch(shared=1 << 32), fresh.seen.launches, fresh.seen.driven) == (1, 0, 0)


def test_the_driver_loads_a_library(fresh: Runtime) -> None:
    library = fresh.library_of(0x1000)
    kernel = fresh.kernel_of(library)
    assert (library, kernel) == (0x1001, 0x1005)
    assert fresh.library["__wrap_cudaKernelSetAttributeForDevice"](ctypes.c_void_p(kernel), 8, 9, 1) == 0
    assert fresh.library["__wrap_cudaLibraryUnload"](ctypes.c_void_p(library)) == 0
    assert (fresh.seen.asked, fresh.seen.others, fresh.seen.unloads) == (4, 0, 0)


@pytest.mark.parametrize("unusual", [{"jit": 1}, {"options": 1}])
def test_a_library_with_options_is_the_runtimes(fresh: Runtime, unusual: dict[str, int]) -> None:
    """It then loads and unloads all."""
    library = fresh.library_of(0x1000, **unusual)
    assert (library, fresh.kernel_of(library), fresh.seen.others) == (0x1002, 0x1002, 2)
    assert fresh.library["__wrap_cudaLibraryUnload"](ctypes.c_void_p(library)) == 0 and fresh.seen.unloads == 1


def test_the_driver_tells_of_devices(fresh: Runtime) -> None:
    assert fresh.number("cudaGetDeviceCount") == 4
    assert fresh.number("cudaDeviceGetAttribute", 75, 2) == 75042 and fresh.seen.others == 0
    for device in (-1, 4, 64):
        assert fresh.number("cudaDeviceGetAttribute", 75, device) == -7
        assert fresh.library["__wrap_cudaKernelSetAttributeForDevice"](ctypes.c_void_p(KERNEL), 8, 9, device) == 0
    assert fresh.seen.others == 6


def test_a_function_of_the_driver(fresh: Runtime) -> None:
    address, result, status = fresh.entry_point(b"cuDeviceGet")
    assert address and (result, status, fresh.seen.others) == (0, 0, 0)
    assert fresh.entry_point(b"cuNoSuch") == (None, 1, 0) and fresh.seen.others == 1


def test_nothing_is_kept_once_a_library_was_unloaded(fresh: Runtime) -> None:
    assert fresh.launch() == 0 and fresh.seen.function == KERNEL + 1
    fresh.library["__wrap_cudaLibraryUnload"](ctypes.c_void_p(1))
    assert fresh.launch() == 0 and fresh.seen.function == KERNEL


def _all_is_the_runtimes(fresh: Runtime) -> None:
    fresh.library["__wrap_cudaSetDevice"](0)
    assert (fresh.launch(), fresh.device(), fresh.seen.sets, fresh.seen.driven) == (LEFT, -7, 1, 0)
    assert (fresh.number("cudaGetDeviceCount"), fresh.number("cudaDeviceGetAttribute", 75, 0)) == (-7, -7)
    library = fresh.library_of(0x1000)
    assert (library, fresh.kernel_of(library)) == (0x1002, 0x1002)
    assert fresh.entry_point(b"cuDeviceGet") == (None, 1, 0)
    assert (fresh.seen.asked, fresh.seen.functions) == (0, 0)


@pytest.mark.parametrize("missing", [1, 2])
def test_a_driver_that_lacks_a_function_is_not_used(fresh: Runtime, missing: int) -> None:
    fresh.seen.missing = missing
    _all_is_the_runtimes(fresh)
    fresh.seen.missing = 0
    assert fresh.launch() == LEFT


@pytest.mark.parametrize("failing", [3, 4])
def test_a_driver_that_is_not_started_yet_is_tried_again(fresh: Runtime, failing: int) -> None:
    fresh.seen.failing = failing
    _all_is_the_runtimes(fresh)
    fresh.seen.failing = 0
    assert (fresh.launch(), fresh.device()) == (0, 0)
    library = fresh.library_of(0x3000)
    assert (library, fresh.kernel_of(library)) == (0x3002, 0x3002), "the runtime still loads all"


def test_no_call_of_the_driver_is_made_that_has_to_fail(fresh: Runtime) -> None:
    """A tool that checks programs reports each."""
    for context in (1, 0, 1):
        fresh.seen.context = context
        fresh.device()
        fresh.library["__wrap_cudaSetDevice"](1)
        if context:
            fresh.launch()
    assert fresh.seen.refused == 0


def test_more_kernels_than_there_is_room_for(fresh: Runtime) -> None:
    """Each is launched by its own function, or itself."""
    itself = 0
    for _ in range(2):
        for kernel in range(KERNEL, KERNEL + 6000 * 16, 16):
            assert fresh.launch(kernel) == 0 and fresh.seen.function in (kernel, kernel + 1)
            itself += fresh.seen.function == kernel
    assert 2 * 1904 <= itself < 2 * 3000


def test_threads_with_contexts_of_their_own(fresh: Runtime) -> None:
    """A kernel's function is that of one context, and no other thread's launch uses it."""
    numbers: dict[int, int] = {}

    def call(turn: int) -> None:
        number = numbers.setdefault(threading.get_ident(), len(numbers) + 1)
        fresh.library.use_context(number)
        fresh.launch(KERNEL + turn * 16)

    in_threads(call)
    for number in range(1, 5):
        fresh.library.use_context(number)
        for turn in range(50):
            kernel = KERNEL + turn * 16
            assert fresh.launch(kernel) == 0 and fresh.seen.function in (kernel, kernel + number)
