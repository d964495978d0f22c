"""The short ways of the runtime library: what the driver answers, and what is left to the CUDA runtime (a stand-in)."""

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

SOURCE = next(path for path in runtime.SOURCES if path.name == "runtime_launch.c")
STAND_IN = ROOT / "tests" / "helpers" / "native" / "cuda_runtime.c"
CLUSTER, PRIORITY = 4, 8  # attributes of a launch
LEFT = 98  # what the stand-in of the CUDA runtime returns of a launch
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
        *((name, ctypes.c_int32) for name in ("gets", "sets", "unloads", "launches", "functions", "driven")),
        *((name, ctypes.c_int32) for name in ("device", "context", "missing", "failing", "refused")),
        *((name, ctypes.c_uint64) for name in ("function", "stream", "attributes")),
        ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3), ("shared", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
    )  # fmt: skip


class Runtime:
    """The functions of one fresh copy of the runtime library's part."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.seen: Any = Seen.in_dll(self.library, "seen")
        self.seen.context = 1

    def launch(self, kernel: int = KERNEL, **changed: Any) -> int:
        config = Config((2, 3, 4), (5, 6, 7), 8, 9, None, 0)
        for name, value in changed.items():
            setattr(config, name, value)
        return int(self.library["__wrap_cudaLaunchKernelExC"](ctypes.byref(config), ctypes.c_void_p(kernel), None))

    def device(self) -> int:
        found = ctypes.c_int()
        assert self.library["__wrap_cudaGetDevice"](ctypes.byref(found)) == 0
        return found.value


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runtime") / "runtime.so"
    flags = [flag for flag in runtime.COMPILE if "visibility" not in flag]
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


def test_another_context_is_left_to_the_runtime(fresh: Runtime) -> None:
    found = []
    for context in (1, 2, 1, 0, 3, 1):
        fresh.seen.context = context
        found.append(fresh.launch())
    assert found == [0, LEFT, 0, LEFT, LEFT, 0]
    assert fresh.launch(KERNEL + 64) == 0 and fresh.seen.function == KERNEL + 64 + 1


@pytest.mark.parametrize("failing", [1, 2])
def test_what_fails_is_done_by_the_runtime(fresh: Runtime, failing: int) -> None:
    fresh.seen.failing = failing
    assert (fresh.launch(), fresh.seen.launches, fresh.seen.driven) == (LEFT, 1, 0)
    fresh.seen.failing = 0
    assert fresh.launch() == 0


def test_an_unusual_launch_is_left_to_the_runtime(fresh: Runtime) -> None:
    attributes = (Attribute * 2)(Attribute(CLUSTER), Attribute(PRIORITY))
    assert [fresh.launch(attributes=attributes, count=count) for count in (1, 2)] == [0, LEFT]
    assert fresh.launch(shared=1 << 32) == LEFT


def test_nothing_is_known_once_a_library_was_unloaded(fresh: Runtime) -> None:
    assert fresh.launch() == 0
    assert fresh.library["__wrap_cudaLibraryUnload"](None) == 0 and fresh.seen.unloads == 1
    assert fresh.launch() == LEFT


def test_a_driver_that_lacks_a_function_is_not_used(fresh: Runtime) -> None:
    fresh.seen.missing = 1
    fresh.library["__wrap_cudaSetDevice"](0)
    assert (fresh.launch(), fresh.device(), fresh.seen.sets, fresh.seen.driven) == (LEFT, -7, 1, 0)


def test_a_driver_that_is_not_started_yet_is_tried_again(fresh: Runtime) -> None:
    fresh.seen.failing = 3
    assert (fresh.launch(), fresh.device()) == (LEFT, -7)
    fresh.seen.failing = 0
    assert (fresh.launch(), fresh.device()) == (0, 0)


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
    """Each is launched by its own function, or left to the runtime."""
    left = 0
    for _ in range(2):
        for kernel in range(KERNEL, KERNEL + 6000 * 16, 16):
            if fresh.launch(kernel) == LEFT:
                left += 1
            else:
                assert fresh.seen.function == kernel + 1
    assert 2 * 1904 <= left < 2 * 3000


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
            if fresh.launch(kernel) == 0:
                assert fresh.seen.function == kernel + number
