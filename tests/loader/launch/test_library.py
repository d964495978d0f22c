"""The dynamic linker must never hand out a library for another: by its path, nor by its file's number."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precast.loader.contract.format.index import digest
from precast.loader.errors import LoadError
from precast.loader.launch import library
from tests.helpers.caches import NUMBER_MARK as MARK
from tests.helpers.caches import NUMBER_SOURCE as SOURCE
from tests.helpers.caches import Native, compiler
from tests.helpers.native.open_libraries import open_libraries

CYCLES = """
import ctypes, os, sys
from precast.loader.launch import library
from precast.loader.contract.format.index import digest
code, count = open(sys.argv[1], "rb").read(), int(sys.argv[2])
mark = (0x5A3C7E11).to_bytes(4, "little")
assert code.count(mark) == 1
files, numbers, handles = set(), set(), []
make = os.memfd_create
def watch(*a):
    file = make(*a)
    files.add(file)
    numbers.add(os.fstat(file).st_ino)
    return file
os.memfd_create = watch
for n in range(count):
    one = code.replace(mark, n.to_bytes(4, "little"))
    opened = library.open_bytes(one, digest(one), "precast:number")
    handles.append(opened)
    got = ctypes.CDLL(None, handle=opened).precast_test_number()
    assert got == n, f"asked for {n}, got {got}"
for n, opened in enumerate(handles):
    assert ctypes.CDLL(None, handle=opened).precast_test_number() == n
print(len(files), len(numbers), len(set(os.listdir("/proc/self/fd"))))
"""


@pytest.fixture(scope="module")
def number(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("number")
    (folder / "number.c").write_text(SOURCE)
    compiler(folder / "number.c", "-o", folder / "number.so")
    return folder / "number.so"


@pytest.mark.slow
def test_a_thousand_libraries_through_one_descriptor(number: Path) -> None:
    """Each is closed before the next is made, so that all have one descriptor number: none is mistaken for another."""
    done = subprocess.run([sys.executable, "-c", CYCLES, number, "1000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files, numbers, left = map(int, done.stdout.split())
    assert files <= 2, "the descriptor was used again and again"
    assert numbers == 1000, "the kernel numbers memory files apart while they are mapped"
    assert left < 10


def test_a_file_number_that_is_taken(number: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after 2**32 files on an old kernel: the linker gives the old library, and that is noticed."""
    first, second = (number.read_bytes().replace(MARK, n.to_bytes(4, "little")) for n in (41, 42))
    taken: list[int] = []
    make = library._memory_file

    def keep(code: bytes, label: str) -> int:
        taken.append(make(code, label))
        return os.dup(taken[-1])

    monkeypatch.setattr(library, "_memory_file", keep)
    assert _number(library.open_bytes(first, digest(first), "precast:41")) == 41

    answers = [lambda *_: os.dup(taken[0]), make]  # first the file that is open already, then a new one
    monkeypatch.setattr(library, "_memory_file", lambda *a: answers.pop(0)(*a))
    assert _number(library.open_bytes(second, digest(second), "precast:42")) == 42

    third = number.read_bytes().replace(MARK, (43).to_bytes(4, "little"))
    monkeypatch.setattr(library, "_memory_file", lambda *_: os.dup(taken[0]))
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(LoadError, match="takes precast:43 for a library that is open already: restart"):
        library.open_bytes(third, digest(third), "precast:43")
    assert set(os.listdir("/proc/self/fd")) == before


def _number(handle: int) -> int:
    return int(ctypes.CDLL(None, handle=handle).precast_test_number())


def test_the_trap_is_real(number: Path) -> None:
    """Why all this: two libraries under one path, or one number, are one library to the linker."""
    codes = [number.read_bytes().replace(MARK, n.to_bytes(4, "little")) for n in (51, 52)]
    script = (
        "import ctypes, os, sys\n"
        "for path in sys.argv[1:]:\n"
        "    file = os.memfd_create('x')\n"
        "    os.write(file, open(path, 'rb').read())\n"
        "    print(ctypes.CDLL(f'/proc/self/fd/{file}').precast_test_number())\n"
        "    os.close(file)\n"
    )
    paths = [number.with_name(f"{n}.so") for n in range(2)]
    for path, code in zip(paths, codes, strict=True):
        path.write_bytes(code)
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["51", "51"]


def test_the_whole_digest_is_in_the_path() -> None:
    digests = [digest(bytes([n])) for n in range(200)]
    assert len({library.digest_path(d) for d in digests}) == 200
    assert library.digest_path("0" * 63 + "1") != library.digest_path("0" * 64)
    assert os.path.normpath(f"/proc/self/fd/{library.digest_path(digests[0])}7") == "/proc/self/fd/7"
    assert len(library.digest_path("f" * 64)) < 1024


def test_the_linker_says_what_it_opened(native: Native) -> None:
    path = str(native.driver())
    opened = ctypes.CDLL(path)
    record = library._link_info(opened._handle)
    inside = ctypes.cast(opened.cuInit, ctypes.c_void_p).value
    assert record.path == path and inside is not None and library._base_of(inside) == record.base
    assert library._base_of(1) == -2, "no library"


FAILS = """
import os, sys
from precast.loader.contract.format.index import digest
from precast.loader.launch import library
from precast.loader.launch.ffi import entry
library.load_ffi()
for path in sys.argv[2:]:
    code = open(path, "rb").read()
    opened = library.Library(digest(code), library.open_bytes(code, digest(code), "precast:one"))
empty = [open(os.path.join(sys.argv[1], str(n)), "w") for n in range(20)]
try:
    entry(opened, "__tvm_ffi_scale")("no")
except ValueError as error:
    print(error)
"""


def test_an_error_where_another_file_has_the_descriptor(native: Native, tmp_path: Path) -> None:
    """TVM-FFI reads the symbols of all open libraries for the traceback; of an empty file it cannot."""
    native.entry()
    paths = [native.folder / native.runtime()[0], native.folder / "scale-0-2.so"]
    done = subprocess.run([sys.executable, "-c", FAILS, tmp_path, *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "expected an int, or x, y and a factor\n"), done.stderr


def test_the_linker_names_no_descriptor(native: Native) -> None:
    for _ in range(2):  # also where the linker gives the library that is open
        code = native.echo()
        library.open_bytes(code, digest(code), "precast:echo")
        paths = [path for path in open_libraries() if library.digest_path(digest(code)) in path]
        assert paths and not any(os.path.exists(os.path.dirname(os.path.normpath(path))) for path in paths)
