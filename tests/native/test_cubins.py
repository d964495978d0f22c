"""Cubins through libprecast: what it launches and refuses, against the Python loader. The driver is a stand-in."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from precast import loader
from precast.loader.contract.abi.tvm_ffi_abi import limits
from precast.loader.contract.format.index import digest
from precast.loader.contract.format.program.host_program import HostProgram
from precast.loader.contract.format.signature import Argument, Signature
from tests.helpers.caches import CacheWriter, Native, artifact
from tests.helpers.gpu.launches import Launches, in_threads
from tests.helpers.gpu.programs import CALLS, PROGRAM, PROGRAMS, SIGNATURE, STEP, call, expected, wrong_calls
from tests.helpers.gpu.signature_check import bind
from tests.helpers.native.libprecast import frozen, libprecast_files, request
from tests.helpers.native.libprecast_api import LAUNCH_ERROR, CallFailed, Library, value_of

SETTINGS = settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = libprecast_files(tmp_path_factory.mktemp("libprecast"))
    return Library(folder / "lib" / "libprecast.so")


@pytest.fixture
def driver(native: Native) -> Launches:
    return Launches(native.launches())


def written(folder: Path, signature: Signature = SIGNATURE, code: bytes = b"", **more: Any) -> Path:
    """The folder of a cache with the op ``op``, which is one cubin, without a library for any host."""
    writer = CacheWriter()
    made = artifact(writer.keep(code or bytes(folder), "raw"), {}, symbol="first", kind="cubin", host=None)
    key = digest(repr((made.blob, signature, more)).encode())
    writer.op("op", [replace(made, key=key, signature=signature, **more)], keys=())
    return frozen(writer.write(folder), folder.with_name(f"{folder.name}-frozen"), request("op"))


class Opened:
    """The kernel of a cache by libprecast, which takes what the Python loader takes."""

    def __init__(self, library: Library, native: Native, root: Path) -> None:
        caches = library.open(root, cuda=native.launches())
        self.library, self.kernel = library, library.get(caches, "op")
        library.c.precast_close(caches)

    def __call__(self, *args: Any, stream: int = 0) -> None:
        self.library.call(self.kernel, *map(value_of, args), stream=stream)

    def refusal(self, args: list[Any]) -> str:
        """The kind and the text of a refused call, without what libprecast adds."""
        with pytest.raises(CallFailed) as caught:
            self(*args)
        assert caught.value.args[0] == LAUNCH_ERROR
        return re.sub(r"(argument #\d+) \(\w+\)", r"\1", caught.value.args[1].removeprefix("op: "))


@pytest.fixture
def opened(library: Library, native: Native, tmp_path: Path, driver: Launches) -> Opened:
    driver.expect(PROGRAM)
    return Opened(library, native, written(tmp_path / "cache", program=PROGRAM))


def test_it_launches_what_the_program_says(opened: Opened, driver: Launches) -> None:
    args = call(count=4)
    opened(*args, stream=0x5150)
    assert driver.recorded.stream[1] == 0x5150
    made = driver.take(PROGRAM)
    assert made == expected(PROGRAM, args) and [name for name, _, _ in made] == ["first", "second"]
    assert made[0][2][0] == struct.pack("<Qiq", args[0].data_ptr(), 17, 4)
    assert driver.recorded.loads == 1 and driver.recorded.shared_set == 200_000


def test_every_bad_call_is_refused_in_the_words_of_python(opened: Opened, driver: Launches) -> None:
    for args in wrong_calls():
        kind, text = expected(PROGRAM, args)
        assert opened.refusal(args) == f"{kind.__name__}: {text}"
    with pytest.raises(loader.ConfigError, match="takes 7 arguments"):
        opened(*call()[:-1])
    assert not driver.take(PROGRAM) and not driver.recorded.loads


def test_any_program_does_what_python_says(library: Library, native: Native, tmp_path: Path, driver: Launches) -> None:
    served = []

    @SETTINGS
    @given(PROGRAMS, CALLS)
    def compare(program: HostProgram, args: list[Any]) -> None:
        driver.expect(program)
        kernel, wanted = Opened(library, native, written(tmp_path / "cache", program=program)), expected(program, args)
        if isinstance(wanted, tuple):
            assert kernel.refusal(args) == f"LaunchError: {wanted[1]}"
        else:
            kernel(*args)
            served.append(wanted)
            assert driver.take(program) == wanted

    compare()
    assert len(served) > 20


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"])
def test_the_limits_of_integers(library: Library, native: Native, tmp_path: Path, driver: Launches, dtype: str) -> None:
    """What a call takes from TVM-FFI's numbers of 64 bits is what Python takes."""
    step = replace(STEP, grid=(1, 1, 1), shared=0, parameters=())
    signature = Signature(arguments=(Argument(name="n", kind="scalar", dtype=dtype),))
    program = HostProgram(steps=(step,))
    driver.expect(program)
    kernel = Opened(library, native, written(tmp_path / "cache", signature=signature, program=program))
    least, most = limits(dtype)
    for number in (least, most):
        kernel(number)
    for number in (least - 1, most + 1):
        if -(2**63) <= number < 2**63:
            with pytest.raises(ValueError, match="to be in") as caught:
                bind("op", signature, [number])
            assert kernel.refusal([number]) == f"ValueError: {caught.value}"
    assert len(driver.take(program)) == 2


def test_another_program_is_another_kernel(library: Library, native: Native, tmp_path: Path, driver: Launches) -> None:
    """Also where its device code is the same."""
    other, code = HostProgram(steps=(replace(STEP, shared=7),)), b"code of several"
    roots = [written(tmp_path / str(n), code=code, program=each) for n, each in enumerate((PROGRAM, other))]
    kernels = [Opened(library, native, root) for root in roots]
    args = call()
    for kernel, program in zip(kernels, (PROGRAM, other), strict=True):
        driver.expect(program)
        kernel(*args)
        assert driver.take(program) == expected(program, args)


@pytest.mark.parametrize("function", ["cuLibraryLoadData", "cuKernelSetAttribute", "cuLaunchKernelEx"])
def test_a_driver_that_refuses(opened: Opened, driver: Launches, function: str) -> None:
    driver.recorded.current = 1
    driver.fail(function)
    words = rf"error 1 \(CUDA_ERROR_INVALID_VALUE\): invalid argument, from {function}"
    with pytest.raises(CallFailed, match=words):
        opened(*call())
    assert driver.recorded.pushes == driver.recorded.pops == 1, "the context is left also after an error"
    driver.fail("")
    opened(*call())


def test_the_drivers_word_on_parameters_is_the_last(
    library: Library, native: Native, tmp_path: Path, driver: Launches
) -> None:
    driver.expect(HostProgram(steps=(replace(STEP, parameters=STEP.parameters[:-1]), PROGRAM.steps[1])))
    kernel = Opened(library, native, written(tmp_path / "cache", program=PROGRAM))
    with pytest.raises(CallFailed, match="takes other parameters than the host program packs: rebuild the cache"):
        kernel(*call())
    assert not driver.take(PROGRAM)


def test_an_older_driver(library: Library, native: Native, tmp_path: Path) -> None:
    caches = library.open(written(tmp_path / "cache", program=PROGRAM), cuda=native.driver())
    with pytest.raises(loader.LoadError, match="this one has no cuLibraryLoadData: update it"):
        library.get(caches, "op")


def test_without_a_driver(library: Library, tmp_path: Path) -> None:
    """A target is resolved and opened; only the call needs a device."""
    caches = library.open(written(tmp_path / "cache", program=PROGRAM), cuda="no-libcuda.so")
    kernel = library.get(caches, "op", target=b"sm_90a")
    with pytest.raises(loader.NoCudaDevice, match="is loaded, but there is no CUDA device to launch it on"):
        library.call(kernel, *map(value_of, call()))


def test_a_signature_that_native_code_does_not_read(tmp_path: Path) -> None:
    """It is refused when the folder is made."""
    arguments = [replace(a, dtype="float16") if a.name == "factor" else a for a in SIGNATURE.arguments]
    with pytest.raises(loader.ConfigError, match="factor: native code reads no float16: build an object of op"):
        written(tmp_path / "cache", program=PROGRAM, signature=replace(SIGNATURE, arguments=tuple(arguments)))


def test_a_signature_with_too_much(library: Library, tmp_path: Path) -> None:
    many = replace(SIGNATURE, arguments=(*SIGNATURE.arguments, *[Argument(name="none", kind="none")] * 60))
    root = written(tmp_path / "cache", program=PROGRAM, signature=many)
    with pytest.raises(loader.LoadError, match="the host program cannot be used: a number is out of its range"):
        library.get(library.open(root), "op", target=b"sm_90a")


def test_threads_share_it(opened: Opened, driver: Launches) -> None:
    in_threads(lambda turn: opened(*call(count=2 * (turn % 2))))
    assert driver.recorded.loads == 1 and driver.recorded.launches == 4 * 25 * 2
