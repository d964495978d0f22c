"""libprecast, compiled as a user compiles it: its files, what it needs, and calls of kernels on the CPU."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from precast import loader
from precast.build.errors import OutputError
from precast.build.link import elf
from precast.loader.resolve.cache import Cache
from precast.native.libprecast import HEADER, abi, write_library
from tests.helpers.caches import Native, demo, echo_cache
from tests.helpers.native.libprecast import frozen, has_sanitizers, request
from tests.helpers.native.libprecast_api import (
    LAUNCH_ERROR,
    CallFailed,
    Library,
    Options,
    Request,
    Vector,
    integer,
    real,
    several,
)
from tests.helpers.native.open_libraries import open_libraries

FLOAT32, BFLOAT16 = {"dtype": "float32"}, {"dtype": "bfloat16"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """By a relative path, as docs/native.md has it: gcc runs in another folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("native"))
        write_library(Path("libprecast"))
        return Path("libprecast").absolute()


@pytest.fixture(scope="module")
def library(files: Path) -> Library:
    return Library(files / "lib" / "libprecast.so")


def test_what_is_written(files: Path) -> None:
    written = sorted(str(path.relative_to(files)) for path in files.rglob("*") if not path.is_dir())
    name = f"lib/libprecast.so.{abi()}"
    assert written == ["include/precast.h", "lib/libprecast.so", name, "lib/pkgconfig/precast.pc"]
    assert (files / "include" / "precast.h").read_bytes() == HEADER.read_bytes()


def test_it_needs_libc_alone(files: Path) -> None:
    code = (files / "lib" / "libprecast.so").read_bytes()
    said = subprocess.run(
        ["readelf", "-d", files / "lib" / "libprecast.so"], capture_output=True, text=True, check=True
    )
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", said.stdout))
    assert needed <= {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
    major, minor = elf.oldest_glibc(code).split(".")
    assert (int(major), int(minor)) <= (2, 38)


def test_it_exports_its_header_alone(files: Path) -> None:
    said = subprocess.run(["nm", "-D", "--defined-only", files / "lib/libprecast.so"], capture_output=True, text=True)
    exported = {line.split()[-1] for line in said.stdout.splitlines()}
    assert exported == set(re.findall(r"PRECAST_API [^;]*?\b(precast_\w+)\(", HEADER.read_text()))


@pytest.mark.parametrize(("program", "language"), [("gcc", "c99"), ("gcc", "c11"), ("g++", "c++11"), ("g++", "c++20")])
def test_the_header_compiles_alone(files: Path, tmp_path: Path, program: str, language: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed: apt-get install {program}")
    source = tmp_path / ("program.c" if program == "gcc" else "program.cpp")
    source.write_text("#include <precast.h>\nint main(void) { return precast_abi() < PRECAST_ABI; }\n")
    strict = ("-Wall", "-Wextra", "-Werror", "-pedantic", f"-std={language}")
    where = (f"-I{files}/include", f"-L{files}/lib", "-lprecast", f"-Wl,-rpath,{files}/lib")
    subprocess.run([program, *strict, source, *where, "-o", tmp_path / "program"], check=True)
    assert subprocess.run([tmp_path / "program"], check=False).returncode == 0


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="is not a folder"):
        write_library(tmp_path / "file")


def test_gcc_has_sanitizers(tmp_path: Path) -> None:
    """Else the attacks were made on a library that does not notice a wrong access."""
    if not has_sanitizers(tmp_path):
        pytest.skip("gcc has no sanitizers here: apt-get install libgcc-dev, or your system's package of libasan")


def test_a_kernel_is_called(library: Library, native: Native, folder: Path) -> None:
    caches = library.open(folder, cuda=native.driver())
    kernel = library.get(caches, config=FLOAT32)
    x, y = Vector(1, 2, 3), Vector(0, 0, 0)
    library.call(kernel, x.value(), y.value(), real(2.5))
    assert list(y) == [2.5, 5, 7.5]
    library.c.precast_close(caches)  # the kernel outlives the caches
    library.call(kernel, x.value(), y.value(), real(2))
    assert list(y) == [2, 4, 6]
    library.c.precast_release(kernel)
    assert not [one for one in open_libraries() if one.startswith("/proc/self/fd/")], "another file may have the number"


def test_what_a_kernel_says_of_itself(library: Library, native: Native, path: Path, folder: Path) -> None:
    caches = library.open(folder, cuda=native.driver())
    kernel = library.get(caches, config={"dtype": "torch.bfloat16", "threads": 128})
    row = next(a for a in Cache(path).op("scale").artifacts if a.key == library.c.precast_key(kernel).decode())
    assert json.loads(library.c.precast_config(kernel)) == {"dtype": "bfloat16", "layout": "row", "threads": 128}
    assert json.loads(library.c.precast_signature(kernel)) == row.signature.to_json()
    assert library.c.precast_target(kernel) == b"sm_90a"


def test_a_wrong_call(library: Library, native: Native, folder: Path) -> None:
    kernel = library.get(library.open(folder, cuda=native.driver()), config=FLOAT32)
    x, bare = Vector(1), Vector(1, strides=False)
    with pytest.raises(loader.ConfigError, match=r"takes 3 arguments \(x, y, factor\), not 1: give each once"):
        library.call(kernel, x.value())
    with pytest.raises(loader.ConfigError, match=r"argument 1 \(y\): it has no strides"):
        library.call(kernel, x.value(), bare.value(), real(1))
    with pytest.raises(loader.ConfigError, match="99 is not a precast_kind"):
        library.call(kernel, x.value(), x.value(), integer(0, kind=99))
    with pytest.raises(CallFailed, match="scale: ValueError: expected an int, or x, y and a factor") as caught:
        library.call(kernel, x.value(), x.value(), integer(1))
    assert caught.value.args[0] == LAUNCH_ERROR


def echoing(library: Library, native: Native, folder: Path) -> ctypes.c_void_p:
    """A folder of the kernel that raises what it was given."""
    cache, _ = echo_cache(native, folder / "echo")
    return library.open(frozen(cache.path, folder / "frozen", request("echo")), cuda=native.driver())


def test_every_kind_of_argument_and_the_names_in_an_error(library: Library, native: Native, tmp_path: Path) -> None:
    """The entry raises what it was given; ``argument #1`` has the name that the signature has there."""
    kernel = library.get(echoing(library, native, tmp_path), "echo")
    x = Vector(1, 2)
    with pytest.raises(CallFailed) as caught:
        library.call(kernel, integer(11), x.value(), several(integer(7), several(real(0.5), integer(1, kind=2))))
    told = caught.value.args[1]
    assert told.startswith("echo: TypeError: argument #1 (x) of 3: tensor at ")
    assert "array of 2: kind 1 padding 0 value 7; object of kind" in told
    assert "array of 2: float 0x1p-1; kind 2 padding 0 value 1; " in told
    with pytest.raises(CallFailed, match=r"none 0; kind 4 padding 0 value 1234"):
        library.call(kernel, integer(11), integer(0, kind=0), integer(0x1234, kind=4))
    with pytest.raises(CallFailed, match="failed and left no error"):
        library.call(kernel, integer(6), integer(0), integer(0))
    for wish in (1, 2, 3, 4):  # it returns something, an object too
        library.call(kernel, integer(wish), integer(0), integer(0))


def test_the_stream_is_in_the_environment(library: Library, native: Native, tmp_path: Path) -> None:
    """A tensor on a device is described with the stream that the environment has for that device."""
    kernel = library.get(echoing(library, native, tmp_path), "echo")
    x = Vector(1)
    x.tensor.device_type, x.tensor.device = 2, 1
    with pytest.raises(CallFailed, match=r"on 2:1 of .* stream 0x5150"):
        library.call(kernel, integer(11), x.value(), integer(0), stream=0x5150)
    with pytest.raises(CallFailed, match=r"stream \(nil\)"):  # it was put back, and is the one of this call
        library.call(kernel, integer(11), x.value(), integer(0))


def test_a_target_is_checked_at_the_first_call(library: Library, native: Native, folder: Path) -> None:
    x = Vector(1)
    resolved = library.get(library.open(folder, cuda=native.driver()), config=FLOAT32, target=b"sm_100a")
    with pytest.raises(CallFailed, match=r"scale is built for sm_100a, and device 0 is 9\.0"):
        library.call(resolved, x.value(), x.value(), real(1))
    resolved = library.get(library.open(folder, cuda="no-libcuda.so"), config=FLOAT32, target=b"sm_90a")
    with pytest.raises(loader.NoCudaDevice, match="is loaded, but there is no CUDA device to launch it on"):
        library.call(resolved, x.value(), x.value(), real(1))


def test_devices(library: Library, native: Native, folder: Path) -> None:
    """The stand-in's second device is a Blackwell."""
    caches = library.open(folder, cuda=native.driver())
    assert library.c.precast_target(library.get(caches, config=FLOAT32, device=1)) == b"sm_90a"
    assert library.c.precast_target(library.get(caches, config=FLOAT32, device=2)) == b"sm_100a"
    with pytest.raises(loader.NoCudaDevice, match="there is no CUDA device 2: this process sees 2"):
        library.get(caches, config=FLOAT32, device=3)
    with pytest.raises(loader.ConfigError, match="device and target exclude each other"):
        library.get(caches, config=FLOAT32, device=1, target=b"sm_90a")


def test_folders_of_several_compilers(library: Library, native: Native, tmp_path: Path) -> None:
    """Each binds to its own runtime; one of the same name with another content is refused."""
    one, other = (
        frozen(demo(native, factor=n).write(tmp_path / str(n)), tmp_path / f"{n}-frozen", request("twice"))
        for n in (11, 13)
    )
    kernels = [
        library.get(library.open(root, cuda=native.driver()), "twice", target=b"sm_90a") for root in (one, other)
    ]
    assert all(kernel.value for kernel in kernels)
    liar = demo(native, name="liar", factor=11)
    soname, _ = native.runtime(11)
    liar.runtimes.clear()
    liar.runtime(soname, native.runtime(17)[1])
    root = frozen(liar.write(tmp_path / "liar"), tmp_path / "liar-frozen", request(config=BFLOAT16))
    with pytest.raises(loader.LoadError, match="differs from the one of that name that is already open"):
        library.get(library.open(root), config=BFLOAT16, target=b"sm_90a")


def test_threads(library: Library, native: Native, folder: Path) -> None:
    caches, failures = library.open(folder, cuda=native.driver()), []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                kernel = library.get(caches, config=(FLOAT32, BFLOAT16)[turn % 2])
                x, y = Vector(number, 1), Vector(0, 0)
                library.call(kernel, x.value(), y.value(), real(3))
                assert list(y) == [3 * number, 3]
                library.c.precast_release(kernel)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_requests_that_are_none(library: Library, native: Native, folder: Path) -> None:
    caches = library.open(folder, cuda=native.driver())
    with pytest.raises(loader.ConfigError, match="names no op"):
        library.get(caches, None)
    with pytest.raises(loader.ConfigError, match="-1 is not a device"):
        library.get(caches, config=FLOAT32, device=-1)
    for text in (b"", b"[]", b'{"dtype": "float32"', b'{"dtype": 1, "dtype": 2}', b"\xff"):
        with pytest.raises(loader.ConfigError, match="the config"):
            library.get(caches, config=text)
    with pytest.raises(loader.ConfigError, match="is not a size"):
        library.get(caches, config=FLOAT32, problem=b'{"m": -1}')
    with pytest.raises(loader.ConfigError, match=r"set it to sizeof\(precast_request\)"):
        library.get(caches, config=FLOAT32, size=0)
    with pytest.raises(loader.ConfigError, match="there is no folder to open"):
        library.open("")


def test_a_newer_program(library: Library, native: Native, folder: Path) -> None:
    """What it does not ask for may be unknown here; what it asks for may not."""

    class Newer(ctypes.Structure):
        _fields_ = (("known", Request), ("more", ctypes.c_void_p))

    caches = library.open(folder, cuda=native.driver())
    known = Request(size=ctypes.sizeof(Newer), op=b"scale", config=b'{"dtype": "float32"}')
    for more, status in ((None, 0), (1, 1)):
        kernel = ctypes.c_void_p()
        asked = Newer(known=known, more=more)
        assert library.c.precast_get(caches, ctypes.byref(asked), ctypes.byref(kernel), None) == status
    assert ctypes.sizeof(Options) == 32 and ctypes.sizeof(Request) == 48


def test_another_tvm_ffi(library: Library, tmp_path: Path, folder: Path) -> None:
    with pytest.raises(loader.VariantNotFound, match="needs apache-tvm-ffi, which is not installed"):
        library.get(library.open(folder, tvm_ffi=tmp_path / "none.so"), config=BFLOAT16, target=b"sm_90a")
    other = tmp_path / "other.c"
    names = (
        "EnvSetStream", "EnvGetStream", "ErrorSetRaisedFromCStr", "ErrorMoveFromRaised", "ObjectDecRef",
        "FunctionGetGlobal", "FunctionCall",
    )  # fmt: skip
    other.write_text(
        "void TVMFFIGetVersion(unsigned *v) { v[0] = 0; v[1] = 3; v[2] = 1; }\n"
        + "".join(f"int TVMFFI{name}(void) {{ return -1; }}\n" for name in names)
    )
    subprocess.run(["gcc", "-shared", "-fPIC", other, "-o", tmp_path / "other.so"], check=True)
    with pytest.raises(loader.VariantNotFound, match=r"made with apache-tvm-ffi 0\.1, 0\.3\.1 is installed"):
        library.get(library.open(folder, tvm_ffi=tmp_path / "other.so"), config=BFLOAT16, target=b"sm_90a")
