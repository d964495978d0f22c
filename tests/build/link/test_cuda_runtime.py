"""The functions of the CUDA runtime that kernels call, over a stand-in of the driver."""

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

SOURCE = next(path for path in runtime.SOURCES if path.name == "cuda_runtime.c")
STAND_IN = ROOT / "tests" / "helpers" / "native" / "driver_functions.c"
CLUSTER = 4  # an attribute of a launch
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
        *((name, ctypes.c_int32) for name in ("starts", "switches", "retained", "released")),
        *((name, ctypes.c_int32) for name in ("functions", "driven", "requested")),
        *((name, ctypes.c_int32) for name in ("device", "context", "missing", "failing", "refused", "active")),
        *((name, ctypes.c_uint64) for name in ("function", "stream", "attributes", "options")),
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
    )  # fmt: skip


class Runtime:
    """The functions of one fresh copy of the runtime library's part."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.seen: Any = Seen.in_dll(self.library, "seen")
        self.seen.context, self.seen.active = 1, 1

    def launch(self, kernel: int = KERNEL, **changed: Any) -> int:
        config = Config((2, 3, 4), (5, 6, 7), 8, 9, None, 0)
        for name, value in changed.items():
            setattr(config, name, value)
        return int(self.library["cudaLaunchKernelExC"](ctypes.byref(config), ctypes.c_void_p(kernel), None))

    def device(self) -> int:
        return self.number("cudaGetDevice")

    def use(self, device: int) -> int:
        return int(self.library["cudaSetDevice"](device))

    def number(self, name: str, *rest: int) -> int:
        """What a function writes into its first argument; the number of an error, negative, where it returns one."""
        found = ctypes.c_int(-7)
        status = int(self.library[name](ctypes.byref(found), *rest))
        return -status if status else found.value

    def set_attribute(self, device: int) -> int:
        return int(self.library["cudaKernelSetAttributeForDevice"](ctypes.c_void_p(KERNEL), 8, 9, device))

    def set_attribute_of_function(self) -> int:
        """Likewise, on the device that is current."""
        return int(self.library["cudaFuncSetAttribute"](ctypes.c_void_p(KERNEL), 8, 9))

    def library_of(self, code: int, *options: int) -> int:
        """A library that was loaded."""
        found = ctypes.c_void_p()
        jit, jit_values, jit_count, names, values, count = options or (0,) * 6
        pointers = [ctypes.c_void_p(value) for value in (code, jit, jit_values, names, values)]
        load = self.library["cudaLibraryLoadData"]
        assert load(ctypes.byref(found), *pointers[:3], jit_count, *pointers[3:], count) == 0
        return found.value or 0

    def kernel_of(self, library: int, name: bytes = b"four") -> int:
        """A kernel of a library."""
        found = ctypes.c_void_p()
        assert self.library["cudaLibraryGetKernel"](ctypes.byref(found), ctypes.c_void_p(library), name) == 0
        return found.value or 0

    def entry_point(self, name: bytes) -> tuple[int | None, int, int]:
        """The address of a function of the driver, how that went, and what was returned."""
        found, result = ctypes.c_void_p(), ctypes.c_int(7)
        find = self.library["cudaGetDriverEntryPointByVersion"]
        status = find(name, ctypes.byref(found), 12000, ctypes.c_ulonglong(1), ctypes.byref(result))
        return found.value, result.value, status

    def words(self, status: int) -> tuple[str, str]:
        """The name and the text of an error."""
        found = []
        for name in ("cudaGetErrorName", "cudaGetErrorString"):
            word = self.library[name]
            word.restype = ctypes.c_char_p
            found.append(word(status).decode())
        return found[0], found[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runtime") / "runtime.so"
    flags = [flag for flag in runtime.COMPILE if "visibility" not in flag]
    flags += ["-Ddlopen=stand_in_open", "-Ddlsym=stand_in_symbol"]
    subprocess.run(["gcc", *flags, "-Wno-pedantic", "-shared", SOURCE, STAND_IN, "-o", path], check=True)
    return path


@pytest.fixture
def fresh(built: Path, tmp_path: Path) -> Runtime:
    return Runtime(Path(shutil.copy(built, tmp_path / "fresh.so")))


def test_the_device_is_that_of_the_current_context(fresh: Runtime) -> None:
    fresh.seen.device = 2
    assert fresh.device() == 2
    fresh.seen.context = 0
    assert fresh.device() == 0, "the first one, where none is current"
    fresh.seen.context, fresh.seen.device = 1, 9
    assert fresh.device() == -101


def test_a_device_that_is_current_is_not_made_current(fresh: Runtime) -> None:
    assert [fresh.use(device) for device in (0, 0, 1, 1, 0)] == [0] * 5
    assert (fresh.seen.switches, fresh.seen.context) == (2, 100)
    assert [fresh.use(device) for device in (-1, 4, 64)] == [101] * 3 and fresh.seen.switches == 2


def test_a_primary_context_that_others_started_stays_theirs(fresh: Runtime) -> None:
    assert fresh.use(1) == 0 and (fresh.seen.retained, fresh.seen.released) == (1, 0)
    assert fresh.use(0) == 0 and (fresh.seen.retained, fresh.seen.released) == (2, 1)
    fresh.seen.failing = 5
    assert fresh.use(2) == 2 and fresh.seen.context == 100


def test_a_thread_without_a_context_gets_none_on_a_device_that_it_does_not_use(fresh: Runtime) -> None:
    """What a kernel's host code does around a launch: the old device, the tensors' device, the old device."""
    seen = fresh.seen
    seen.context, seen.active = 0, 2
    old = fresh.device()
    assert (old, fresh.use(1), seen.context) == (0, 0, 101)
    assert (fresh.use(old), seen.context, seen.active) == (0, 0, 2), "device 0 was not started"
    assert (fresh.device(), fresh.use(0), seen.context, seen.active) == (0, 0, 100, 3)
    assert (fresh.use(0), seen.context) == (0, 100), "the tensors' device stays current"
    fresh.use(1)
    seen.context = 0  # by other code
    assert (fresh.use(1), seen.context, fresh.use(0), seen.context) == (0, 101, 0, 0)
    assert fresh.use(1) == 0
    seen.context = 0
    assert (fresh.use(0), seen.context, fresh.use(0), seen.context) == (0, 100, 0, 100)
    seen.context = 101
    assert (fresh.device(), fresh.use(0), seen.context, fresh.use(1), seen.context) == (1, 0, 100, 0, 101)


def test_a_launch_is_the_same_by_the_function(fresh: Runtime) -> None:
    attributes = (Attribute * 1)(Attribute(CLUSTER))
    assert fresh.launch(attributes=attributes, count=1) == 0
    seen = fresh.seen
    assert (list(seen.grid), list(seen.block), seen.shared, seen.stream) == ([2, 3, 4], [5, 6, 7], 8, 9)
    assert (seen.attributes, seen.count, seen.function) == (ctypes.addressof(attributes), 1, KERNEL + 1)
    assert fresh.launch() == 0 and (seen.functions, seen.driven) == (1, 2)


def test_another_context_launches_by_the_kernel(fresh: Runtime) -> None:
    """The driver then finds the function in the current context."""
    found = []
    for context in (1, 2, 1, 3, 1):
        fresh.seen.context = context
        found.append((fresh.launch(), fresh.seen.function - KERNEL))
    assert found == [(0, 1), (0, 0), (0, 1), (0, 0), (0, 1)]
    assert fresh.launch(KERNEL + 64) == 0 and fresh.seen.function == KERNEL + 64 + 1


def test_a_launch_that_fails(fresh: Runtime) -> None:
    fresh.seen.failing = 2
    assert (fresh.launch(), fresh.seen.driven) == (400, 0)
    fresh.seen.failing = 0
    assert fresh.launch() == 0


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 1),
        ({"grid": (0, 1, 1)}, 9),
        ({"block": (1, 1, 0)}, 9),
        ({"grid": (500, 600, 700)}, 1),
        ({"grid": (501, 1, 1)}, 9),
        ({"grid": (1, 1, 701)}, 9),
        ({"block": (201, 1, 1)}, 9),
        ({"block": (1, 1, 401)}, 9),
        ({"block": (10, 10, 9)}, 1),
        ({"block": (1, 301, 1)}, 9),
        ({"block": (10, 10, 10)}, 9),
    ],
)
def test_a_grid_that_the_device_does_not_have_is_told(fresh: Runtime, changed: dict[str, Any], status: int) -> None:
    """The driver calls it an invalid value, as many other things. The stand-in has 900 threads a block, blocks of up to
    (200, 300, 400), grids of up to (500, 600, 700)."""
    fresh.seen.failing = 6
    sizes = {"grid": (1, 1, 1), "block": (1, 1, 1), **changed}
    grid, block = ((ctypes.c_uint32 * 3)(*sizes[name]) for name in ("grid", "block"))
    assert fresh.launch(grid=grid, block=block) == status
    fresh.seen.failing = 0
    assert fresh.launch(grid=grid, block=block) == 0, "the driver decides"


def test_a_launch_in_a_thread_without_a_context(fresh: Runtime) -> None:
    """A kernel without a tensor that has a device makes none current."""
    fresh.seen.context = 0
    assert fresh.launch() == 0 and (fresh.seen.context, fresh.seen.function) == (100, KERNEL)
    assert fresh.launch() == 0 and fresh.seen.function == KERNEL + 100


def test_a_kernel_whose_function_is_not_found_is_launched_itself(fresh: Runtime) -> None:
    fresh.seen.failing = 1
    assert (fresh.launch(), fresh.seen.function) == (0, KERNEL)
    fresh.seen.failing = 0
    assert (fresh.launch(), fresh.seen.function) == (0, KERNEL + 1)


def test_shared_memory_that_no_launch_can_have(fresh: Runtime) -> None:
    assert (fresh.launch(shared=1 << 32), fresh.seen.driven) == (1, 0)


def test_a_library(fresh: Runtime) -> None:
    library = fresh.library_of(0x1000)
    assert (library, fresh.kernel_of(library), fresh.seen.options) == (0x1001, 0x1005, 0)
    assert fresh.set_attribute(1) == fresh.set_attribute_of_function() == 0
    assert fresh.library["cudaLibraryUnload"](ctypes.c_void_p(library)) == 0 and fresh.seen.requested == 5
    assert fresh.library_of(0x1000, 1, 2, 4, 8, 16, 32) == 0x1001 and fresh.seen.options == 63


def test_facts_of_devices(fresh: Runtime) -> None:
    assert (fresh.number("cudaGetDeviceCount"), fresh.number("cudaDriverGetVersion")) == (4, 13000)
    assert fresh.number("cudaDeviceGetAttribute", 75, 2) == 75042
    for device in (-1, 4, 64):
        assert (fresh.number("cudaDeviceGetAttribute", 75, device), fresh.set_attribute(device)) == (-101, 101)


def test_errors_have_the_drivers_words(fresh: Runtime) -> None:
    assert fresh.words(400) == ("unknown", "no description"), "not started"
    assert fresh.launch() == 0 and fresh.words(400) == ("CUDA_ERROR_OTHER", "something else")
    assert fresh.words(77) == ("unknown", "no description")
    assert fresh.words(9) == ("cudaErrorInvalidConfiguration", "invalid configuration argument")


def test_a_function_of_the_driver(fresh: Runtime) -> None:
    address, result, status = fresh.entry_point(b"cuDeviceGet")
    assert address and (result, status) == (0, 0)
    assert fresh.entry_point(b"cuNoSuch") == (None, 1, 0)


def test_nothing_is_kept_once_a_library_was_unloaded(fresh: Runtime) -> None:
    assert fresh.launch() == 0 and fresh.seen.function == KERNEL + 1
    fresh.library["cudaLibraryUnload"](ctypes.c_void_p(1))
    assert fresh.launch() == 0 and fresh.seen.function == KERNEL


def _all_fails(fresh: Runtime, status: int) -> None:
    assert (fresh.launch(), fresh.use(0)) == (status,) * 2
    assert (fresh.set_attribute(0), fresh.set_attribute_of_function()) == (status,) * 2
    for name, *rest in (("cudaGetDevice",), ("cudaGetDeviceCount",), ("cudaDeviceGetAttribute", 75, 0)):
        assert fresh.number(str(name), *map(int, rest)) == -status
    none = ctypes.c_void_p()
    assert fresh.library["cudaLibraryLoadData"](ctypes.byref(none), none, none, none, 0, none, none, 0) == status
    assert fresh.library["cudaLibraryGetKernel"](ctypes.byref(none), none, b"") == status
    assert fresh.library["cudaLibraryUnload"](none) == status
    assert fresh.entry_point(b"cuDeviceGet") == (None, 7, status)
    assert (fresh.seen.requested, fresh.seen.functions, fresh.seen.switches) == (0, 0, 0)


@pytest.mark.parametrize(("told", "number", "status"), [
    ("failing", 4, 35),  # no driver
    ("missing", 2, 35),  # one of before CUDA 11.3
    ("missing", 1, 35),  # one of before CUDA 12
    ("failing", 3, 100),  # no device
])  # fmt: skip
def test_a_driver_that_cannot_be_used_is_tried_again(fresh: Runtime, told: str, number: int, status: int) -> None:
    setattr(fresh.seen, told, number)
    _all_fails(fresh, status)
    if status == 35:
        assert "there is no CUDA driver" in fresh.words(status)[1] and fresh.seen.starts == 0
    setattr(fresh.seen, told, 0)
    assert (fresh.use(0), fresh.device(), fresh.launch()) == (0, 0, 0)
    starts = fresh.seen.starts
    assert (fresh.launch(), fresh.seen.starts) == (0, starts), "it is started once"


def test_no_call_of_the_driver_is_made_that_has_to_fail(fresh: Runtime) -> None:
    """A tool that checks programs reports each."""
    for context in (1, 0, 1):
        fresh.seen.context = context
        fresh.device()
        fresh.use(1)
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
