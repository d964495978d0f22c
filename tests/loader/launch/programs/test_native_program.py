"""Native programs: what the C code launches and refuses, against the same in Python. The driver is a stand-in."""

from __future__ import annotations

import ctypes
import random
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from precast.loader.errors import LaunchError
from precast.loader.format.artifact import Artifact
from precast.loader.format.index import digest
from precast.loader.format.program.expression import FUNCTIONS, Expression
from precast.loader.format.program.host_program import HostProgram, Parameter, Step, Word
from precast.loader.format.signature import Argument, Signature, Symbol
from precast.loader.format.target import Capability
from precast.loader.launch.arguments import View, bind, leaves_of_call, within
from precast.loader.launch.call_errors import raised
from precast.loader.launch.fastcall import open_callpath
from precast.loader.launch.kernel import Kernel
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.launch.programs import native_program
from precast.loader.launch.programs.native_program import open_code, open_native
from precast.loader.launch.programs.program_code import program_code
from precast.loader.launch.warm_up import AnyValue, Arguments
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from tests.helpers.caches import HOST, CacheWriter, Native, artifact
from tests.helpers.gpu.launches import Launches

HERE = Machine(arch=HOST.arch, glibc=(2, 36), tvm_ffi="0.1.15", capability=Capability(9, 0))
X = Argument(name="x", kind="tensor", dtype="float32", shape=("n", 4), strides=("s", 1), alignment=16, device="cpu")
SIGNATURE = Signature(
    arguments=(
        X,
        Argument(name="bias", kind="none"),
        Argument(name="y", kind="tensor", dtype="float8_e4m3fn", shape=("n",), strides=("t",), device="cpu"),
        Argument(name="count", kind="scalar", dtype="int32", divisibility=2),
        Argument(name="on", kind="scalar", dtype="bool"),
        Argument(name="factor", kind="scalar", dtype="float32"),
        Argument(name="wide", kind="scalar", dtype="float64"),
        Argument(name="stream", kind="env_stream"),
    ),
    symbols={
        "n": Symbol(dtype="int32"), "s": Symbol(dtype="int64", divisibility=4), "t": Symbol(dtype="int64"),
    },
)  # fmt: skip
LEAVES = (
    "x.data", "x.span", "x.shape[0]", "x.shape[1]", "x.strides[0]", "y.data", "y.strides[0]", "count", "on",
    "factor.bits", "wide.bits",
)  # fmt: skip
DECIDING = tuple(leaf for leaf in LEAVES if not leaf.endswith((".data", ".bits")))
BLOCKS = ("max", ("ceil_div", "x.shape[0]", 8), 1)
STEP = Step(
    kernel="first",
    grid=(BLOCKS, 2, 1),
    block=(128, 1, 1),
    cluster=(1, 2, 1),
    shared=("mul", 50_000, "count"),
    overlap=True,
    parameters=(
        Parameter(size=20, words=(Word(0, 8, "x.data"), Word(8, 4, "x.shape[0]"), Word(12, 8, "x.strides[0]"))),
        Parameter(size=1, words=()),
        Parameter(size=4, words=(Word(0, 4, ("float_mul", "factor.bits", 0x40000000)),)),
    ),
)
PROGRAM = HostProgram(
    steps=(STEP, replace(STEP, kernel="second", cluster=(1, 1, 1), overlap=False, when=("at_least", "count", 4))),
    limit=4000,
)


@pytest.fixture
def driver(native: Native, monkeypatch: pytest.MonkeyPatch) -> Launches:
    monkeypatch.setattr(native_program, "LIBRARY", str(native.launches()))
    return Launches(native.launches())


def cubin_of(native: Native, folder: Path, program: HostProgram = PROGRAM) -> tuple[Cache, Artifact]:
    writer = CacheWriter()
    writer.runtime(*native.runtime(), fastcall=native.fastcall())
    made = artifact(writer.keep(b"device code"), {}, symbol="first", kind="cubin", host=None)
    writer.op("op", [replace(made, signature=SIGNATURE, program=program)], keys=())
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


def tensors(n: int, padding: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.zeros(max(n, 1), 4 + padding)[:n, :4]
    return x, torch.zeros(max(n, 1), dtype=torch.float8_e4m3fn)[:n]


def call(n: int = 17, count: int = 2, padding: int = 0) -> list[Any]:
    x, y = tensors(n, padding)
    return [x, None, y, count, True, 1.5, -2.0]


def view(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    dtype = str(value.dtype).removeprefix("torch.")
    shape, strides = tuple(value.shape), tuple(value.stride())
    return View(data=value.data_ptr(), shape=shape, strides=strides, dtype=dtype, device=(1, 0))


def expected(program: HostProgram, args: list[Any]) -> Any:
    """What Python makes of a call: its launches, or its error."""
    values = [view(value) for value in args]
    try:
        bound = bind("op", SIGNATURE, values)
        within(program.limit, SIGNATURE, values)
        return program.launches(leaves_of_call(SIGNATURE, bound))
    except (TypeError, ValueError, LaunchError) as error:
        return type(error), str(error)


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
    x, y = tensors(17)
    good = call()
    bad = [
        [], good[:-1], [*good, 1], [x, 1, *good[2:]], [None, *good[1:]], [x.double(), *good[1:]], [x[0], *good[1:]],
        [x[:, :3], *good[1:]], [torch.zeros(17, 6)[:, :4], *good[1:]], [x, None, y[:16], *good[3:]],
        [torch.zeros(69)[1:].view(17, 4), *good[1:]], [x, None, y.view(torch.uint8), *good[3:]], call(count=3),
        call(count=2**31), [*good[:3], 1.5, *good[4:]], [*good[:4], 128, *good[5:]], [*good[:5], "x", 1.0],
        [*good[:6], None], call(n=1001), call(count=6), [*good[:3], None, *good[4:]],
    ]  # fmt: skip
    for args in bad:
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


def expressions(leaves: tuple[str, ...]) -> st.SearchStrategy[Expression]:
    numbers = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300)
    plain = st.one_of(numbers, st.sampled_from(leaves))
    return st.recursive(plain, lambda part: st.tuples(st.sampled_from(sorted(FUNCTIONS)), part, part), max_leaves=6)


words = st.builds(Word, st.sampled_from([0, 8, 16]), st.sampled_from([1, 2, 4, 8]), expressions(LEAVES))
sizes, several = st.integers(24, 33), st.lists(words, max_size=4).map(tuple)
parameters = st.builds(lambda n, w: Parameter(size=n, words=w), sizes, several)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(parameters, max_size=4), expressions(DECIDING), expressions(DECIDING), expressions(DECIDING),
    st.sampled_from([0, 1, 17, 40]), st.sampled_from([-4, 0, 2]), st.sampled_from([0, 4]), st.floats(width=32),
)  # fmt: skip
def test_any_program_does_what_python_says(
    made: tuple[KernelOpener, Cache, Artifact], driver: Launches, found: list[Parameter],
    grid: Expression, shared: Expression, when: Expression, n: int, count: int, padding: int, factor: float,
) -> None:  # fmt: skip
    """Expressions of all functions and leaves, most of which no kernel would have."""
    step = replace(STEP, grid=(("max", ("min", grid, 9), 1), 1, 1), parameters=tuple(found), when=when)
    program = HostProgram(steps=(step, replace(step, kernel="second", shared=shared)))
    driver.expect(program)
    opener, cache, artifact = made
    one = replace(artifact, program=program, key=digest(repr(program).encode()))
    kernel = opener.open(cache, "op", one)
    args = [*call(n, count, padding)[:5], factor, -2.0]
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
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                kernel(*call(count=random.choice([0, 2])))
        except BaseException as error:
            if "INVALID_VALUE" not in str(error):  # the stand-in has no room for more launches
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and driver.recorded.loads == 1


def test_where_native_code_cannot_run_it(native: Native, tmp_path: Path, driver: Launches) -> None:
    """Then there is none, and cuda-python launches it."""
    cache, made = cubin_of(native, tmp_path / "cache")
    blob = cache.index.fastcall(HOST.arch)
    assert blob is not None
    library = open_callpath(cache, blob)
    assert library is not None and open_native(library, cache, "op", made) is not None
    half = replace(SIGNATURE.arguments[5], dtype="float16")
    arguments = (*SIGNATURE.arguments[:5], half, *SIGNATURE.arguments[6:])
    assert open_native(library, cache, "op", replace(made, signature=replace(SIGNATURE, arguments=arguments))) is None
    assert native_program.driver_functions("libno-such.so.1") is None
    assert native_program.driver_functions("libc.so.6") is None, "an older driver lacks a function"


def test_no_damaged_code_is_run(native: Native, tmp_path: Path, driver: Launches) -> None:
    """Whatever is changed in it, it is refused or does something else within its memory."""
    cache, _ = cubin_of(native, tmp_path / "cache")
    blob, code, draw = cache.index.fastcall(HOST.arch), program_code("op", SIGNATURE, PROGRAM), random.Random(5)
    assert blob is not None
    library = open_callpath(cache, blob)
    assert library is not None
    pointers = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p)
    entry = ctypes.CFUNCTYPE(ctypes.c_int, *pointers)(library.address("precast_program_call"))
    functions, refused = native_program.driver_functions(str(native.launches())), 0
    for number in range(3000):
        damaged = bytearray(code)
        for _ in range(draw.randrange(1, 3)):
            place = draw.randrange(len(code) // 8) * 8 if number % 2 else draw.randrange(len(code))
            damaged[place] = draw.randrange(256)
        if number % 5 == 0:
            del damaged[draw.randrange(len(damaged)) :]
        opened = open_code(library, bytes(damaged), b"code", functions)
        if isinstance(opened, str):
            assert opened.startswith("the host program cannot be used: ")
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
