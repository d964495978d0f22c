"""Native programs: what the C code launches and refuses, against the same in Python. The driver is a stand-in."""

from __future__ import annotations

import ctypes
import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from precast.loader.contract.abi.tvm_ffi_abi import AnyValue
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.index import digest
from precast.loader.contract.format.program.expression import Expression
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.contract.format.program.program_code import program_code
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Capability
from precast.loader.errors import LaunchError, LoadError
from precast.loader.launch.call_errors import raised
from precast.loader.launch.callpath import missing
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.launch.warm_up import Arguments
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import HOST, CacheWriter, Native, artifact
from tests.helpers.exchange import CUDA, Fake
from tests.helpers.gpu.launches import Launches, in_threads
from tests.helpers.gpu.programs import CALLS, PROGRAM, PROGRAMS, SIGNATURE, STEP, call, expected, wrong_calls

if missing() is not None:
    pytest.skip(str(missing()), allow_module_level=True)

from precast.loader.launch import native_program
from precast.loader.launch.native_program import driver_functions, open_native
from precast.loader.native._callpath import PROGRAM_ENTRY, open_program

HERE = Machine(arch=HOST.arch, glibc=(2, 36), tvm_ffi="0.1.15", capability=Capability(9, 0))


@pytest.fixture
def driver(native: Native, monkeypatch: pytest.MonkeyPatch) -> Launches:
    monkeypatch.setattr(native_program, "LIBRARY", str(native.launches()))
    return Launches(native.launches())


def cubin_of(
    native: Native, folder: Path, program: HostProgram = PROGRAM, signature: Signature = SIGNATURE
) -> tuple[Cache, Artifact]:
    writer = CacheWriter()
    writer.runtime(*native.runtime())
    made = artifact(writer.keep(b"device code"), {}, symbol="first", kind="cubin", host=None)
    writer.op("op", [replace(made, signature=signature, program=program)], keys=())
    cache = Cache(writer.write(folder))
    return cache, cache.op("op").artifacts[0]


@pytest.fixture
def kernel(native: Native, tmp_path: Path, driver: Launches) -> Kernel:
    driver.expect(PROGRAM)
    return KernelOpener(lambda device: HERE).open(*_opened(cubin_of(native, tmp_path / "cache")))


@pytest.fixture
def made(native: Native, tmp_path: Path) -> tuple[KernelOpener, Cache, Artifact]:
    return KernelOpener(lambda device: HERE), *cubin_of(native, tmp_path / "cache")


def _opened(made: tuple[Cache, Artifact]) -> tuple[Cache, str, Artifact]:
    return made[0], "op", made[1]


def launched_by(kernel: Kernel, driver: Launches, *, context: int = 0) -> list[int]:
    """For each launch of one call in a context, whether a function was launched."""
    driver.recorded.context = context
    args = call(count=4)
    kernel(*args)
    found = list(driver.recorded.functions[: driver.recorded.launches])
    assert driver.take(PROGRAM) == expected(PROGRAM, args)
    return found


def test_functions_are_launched_in_the_first_context_and_kernels_elsewhere(kernel: Kernel, driver: Launches) -> None:
    contexts = [0, 0, 1, 1, 0, 2, 0]
    assert [sum(launched_by(kernel, driver, context=number)) for number in contexts] == [0, 2, 0, 0, 2, 0, 2]


@pytest.mark.parametrize(("failing", "by"), [("cuCtxGetId", [0, 0]), ("cuKernelGetFunction", [0, 0]), ("", [1, 1])])
def test_where_no_function_is_to_be_had_kernels_are_launched(
    kernel: Kernel, driver: Launches, failing: str, by: list[int]
) -> None:
    driver.fail(failing)
    launched_by(kernel, driver)
    assert launched_by(kernel, driver) == by


def test_a_launch_that_fails_by_a_function_is_done_by_the_kernel(kernel: Kernel, driver: Launches) -> None:
    launched_by(kernel, driver)
    driver.fail("function")
    assert launched_by(kernel, driver) == [0, 0]
    driver.fail("")
    assert launched_by(kernel, driver) == [1, 1]


def test_the_stream_is_that_of_the_tensors_owner(native: Native, tmp_path: Path, driver: Launches) -> None:
    there = [replace(a, device="cuda", dtype="float32") if a.kind == "tensor" else a for a in SIGNATURE.arguments]
    signature = replace(SIGNATURE, arguments=tuple(there))
    driver.expect(PROGRAM)
    kernel = KernelOpener(lambda device: HERE).open(*_opened(cubin_of(native, tmp_path, PROGRAM, signature)))
    for device in (0, 1, 0):
        x, y = Fake(64, (17, 4), (CUDA, device)), Fake(64, (17,), (CUDA, device))
        kernel(x, None, y, 4, True, 1.5, -2.0)
        assert list(driver.recorded.stream[: driver.recorded.launches]) == [0x2000 + device] * 2
        driver.take(PROGRAM)


def test_it_launches_what_the_program_says(kernel: Kernel, driver: Launches) -> None:
    args = call(count=4)
    kernel(*args)
    made = driver.take(PROGRAM)
    assert made == expected(PROGRAM, args) and [name for name, _, _ in made] == ["first", "second"]
    assert made[0][2][0] == struct.pack("<Qiq", args[0].data_ptr(), 17, 4)
    assert made[0][2][2] == struct.pack("<f", 3.0)
    kernel(*call(n=0, count=2))
    assert [launch.grid for _, launch, _ in driver.take(PROGRAM)] == [(1, 2, 1)]


def test_the_device_code_is_loaded_once_and_may_use_its_shared_memory(kernel: Kernel, driver: Launches) -> None:
    for count, wanted in ((0, 0), (2, 100_000), (0, 100_000), (4, 200_000)):
        kernel(*call(count=count))
        assert driver.recorded.shared_set == wanted
    assert driver.recorded.loads == 1
    sets = driver.recorded.sets
    kernel(*call(count=4))
    assert driver.recorded.sets == sets, "what is prepared is not prepared again"


def test_every_bad_call_is_refused_in_the_words_of_python(kernel: Kernel, driver: Launches) -> None:
    good = call()
    counts = [[], good[:-1], [*good, 1]]
    for args in (*counts, [*good[:5], "x", 1.0], *wrong_calls()):
        wanted = expected(PROGRAM, args)
        if not isinstance(wanted, tuple):
            pytest.fail(f"{args} is right")
        with pytest.raises((TypeError, ValueError, LaunchError)) as caught:
            kernel(*args)
        text = str(caught.value)
        for place, argument in enumerate(SIGNATURE.passed):
            text = text.replace(f"argument #{place} ({argument.name})", f"argument #{place}")
        assert (type(caught.value), text) == wanted
    assert not driver.take(PROGRAM) and not driver.recorded.loads


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(PROGRAMS, CALLS)
def test_any_program_does_what_python_says(
    made: tuple[KernelOpener, Cache, Artifact], driver: Launches, program: HostProgram, args: list[Any]
) -> None:
    driver.expect(program)
    opener, cache, artifact = made
    one = replace(artifact, program=program, key=digest(repr(program).encode()))
    kernel = opener.open(cache, "op", one)
    wanted = expected(program, args)
    if isinstance(wanted, tuple):
        with pytest.raises(LaunchError) as caught:
            kernel(*args)
        assert str(caught.value) == wanted[1]
    else:
        kernel(*args)
        assert driver.take(program) == wanted


def test_other_ways_to_call_it(kernel: Kernel, driver: Launches) -> None:
    """By names, through tvm_ffi for arguments of other kinds, and made ready before."""
    import numpy as np

    kernel(**dict(zip(kernel.names, call(), strict=True)))
    assert len(driver.take(PROGRAM)) == 1
    kernel(np.zeros((17, 4), np.float32), *call()[1:])
    assert len(driver.take(PROGRAM)) == 1
    with pytest.raises(LaunchError, match="more than 4000 elements"):
        kernel(np.zeros((1001, 4), np.float32), *call(n=1001)[1:])
    assert kernel.launcher is not None
    kernel.launcher.ready(0)
    assert driver.recorded.loads == 1


def test_without_a_call_path_for_this_python(
    native: Native, tmp_path: Path, driver: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECAST_FASTCALL", "0")
    driver.expect(PROGRAM)
    made = KernelOpener(lambda device: HERE).open(*_opened(cubin_of(native, tmp_path / "cache")))
    args = call()
    made(*args)
    assert driver.take(PROGRAM) == expected(PROGRAM, args)
    with pytest.raises(LaunchError, match="more than 4000 elements"):
        made(*call(n=1001))


def test_another_device_is_entered_and_left(kernel: Kernel, driver: Launches) -> None:
    for current, pushes in ((0, 0), (1, 1), (-1, 2)):
        driver.recorded.current = current
        kernel(*call())
        assert (driver.recorded.pushes, driver.recorded.pops) == (pushes, pushes)


@pytest.mark.parametrize("function", ["cuLibraryLoadData", "cuKernelSetAttribute", "cuLaunchKernelEx"])
def test_a_driver_that_refuses(kernel: Kernel, driver: Launches, function: str) -> None:
    driver.recorded.current = 1
    driver.fail(function)
    with pytest.raises(RuntimeError, match=rf"error 1 \(CUDA_ERROR_INVALID_VALUE\): invalid argument, from {function}"):
        kernel(*call())
    assert driver.recorded.pushes == driver.recorded.pops == 1, "the context is left also after an error"
    driver.fail("")
    kernel(*call())


def test_the_drivers_word_on_parameters_is_the_last(native: Native, tmp_path: Path, driver: Launches) -> None:
    for change in (lambda p: p[:-1], lambda p: (*p, p[0]), lambda p: (replace(p[0], size=28), *p[1:])):
        driver.expect(HostProgram(steps=(replace(STEP, parameters=change(STEP.parameters)), PROGRAM.steps[1])))
        made = KernelOpener(lambda device: HERE).open(*_opened(cubin_of(native, tmp_path / str(id(change)))))
        with pytest.raises(RuntimeError, match="takes other parameters than the host program packs: rebuild the cache"):
            made(*call())
        with pytest.raises(LaunchError, match="rebuild the cache"):
            assert made.launcher is not None
            made.launcher.ready(0)
        assert not driver.take(PROGRAM)
    driver.expect(PROGRAM, extra=4)  # padding is no other parameter
    KernelOpener(lambda device: HERE).open(*_opened(cubin_of(native, tmp_path / "padded")))(*call())


def test_threads_share_it(kernel: Kernel, driver: Launches) -> None:
    in_threads(lambda turn: kernel(*call(count=2 * (turn % 2))))
    assert driver.recorded.loads == 1 and driver.recorded.launches == 4 * 25 * 2


def test_what_native_code_cannot_run_is_refused(native: Native, tmp_path: Path, driver: Launches) -> None:
    cache, made = cubin_of(native, tmp_path / "cache")
    assert open_native(cache, "op", made).address
    half = replace(SIGNATURE.arguments[5], dtype="bfloat16")
    signature = replace(SIGNATURE, arguments=(*SIGNATURE.arguments[:5], half, *SIGNATURE.arguments[6:]))
    with pytest.raises(LoadError, match="cannot be launched: factor: native code reads no bfloat16"):
        open_native(cache, "op", replace(made, signature=signature))
    with pytest.raises(LoadError, match="a cubin without a host program, for tools to read"):
        open_native(cache, "op", replace(made, program=None))


def test_a_driver_is_missing_or_too_old(
    native: Native, tmp_path: Path, driver: Launches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one a kernel can be opened all the same, and is never launched."""
    monkeypatch.setattr(native_program, "LIBRARY", "libno-such.so.1")
    opened = KernelOpener(lambda device: HERE).open(*_opened(cubin_of(native, tmp_path / "without")))
    with pytest.raises(LaunchError, match="no CUDA driver when the kernel was opened"):
        opened(*call())
    with pytest.raises(LoadError, match=r"CUDA 12\.4 or newer, and this one has no cuLibraryLoadData: update it"):
        driver_functions("libc.so.6")


def test_no_damaged_code_is_run(native: Native, driver: Launches) -> None:
    """Whatever is changed in it, it is refused or does something else within its memory."""
    code, draw = program_code("op", SIGNATURE, PROGRAM), random.Random(5)
    pointers = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
    entry = ctypes.CFUNCTYPE(ctypes.c_int, *pointers)(PROGRAM_ENTRY)
    functions, refused = driver_functions(str(native.launches())), 0
    for number in range(3000):
        damaged = bytearray(code)
        for _ in range(draw.randrange(1, 3)):
            place = draw.randrange(len(code) // 8) * 8 if number % 2 else draw.randrange(len(code))
            damaged[place] = draw.randrange(256)
        if number % 5 == 0:
            del damaged[draw.randrange(len(damaged)) :]
        try:
            opened = open_program(bytes(damaged), b"code", functions)
        except ValueError as error:
            assert str(error).startswith("the host program cannot be used: ")
            refused += 1
            continue
        driver.expect(PROGRAM)
        values = Arguments(SIGNATURE, 0, 0).values
        packed, result = (AnyValue * len(values))(*values), AnyValue()
        entry(opened, packed, len(values), ctypes.byref(result))
        raised()
    assert refused > 1000


def test_the_deepest_expression_has_room(native: Native, tmp_path: Path, driver: Launches) -> None:
    deep: Expression = "count"
    for _ in range(11):
        deep = ("add", 1, deep)  # each level needs one more place on the stack
    program = HostProgram(steps=(replace(STEP, shared=deep),))
    driver.expect(program)
    KernelOpener(lambda device: HERE).open(*_opened(cubin_of(native, tmp_path / "deep", program)))(*call())
    assert [launch.shared for _, launch, _ in driver.take(program)] == [13]
