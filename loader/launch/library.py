"""Libraries: the checked bytes of an artifact, opened by the dynamic linker without a file on any disk."""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
from dataclasses import field
from pathlib import Path

from precast.loader.errors import LoadError
from precast.loader.fast_start.installed import locate
from precast.loader.fast_start.values import Immutable
from precast.loader.fork_safe import OnceTable
from precast.loader.format.artifact import Artifact
from precast.loader.format.index import Runtime
from precast.loader.resolve.cache import Cache

ENTRY = "__tvm_ffi_"
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_TRIES = 3
_RTLD_DI_LINKMAP = 2
_MODE = os.RTLD_NOW | os.RTLD_LOCAL


class Library(Immutable, eq=False):
    """A library that this process has open, for good: code that a stream may still run is never unloaded."""

    sha256: str
    handle: int = field(repr=False)

    def address(self, symbol: str) -> int:
        """Where a symbol of the library is. One that only a library it needs has does not count."""
        pointer = address_in(self.handle, symbol)
        if not pointer or _base_of(pointer) != _record(self.handle).base:
            raise LoadError(f"the library {self.sha256[:12]} has no symbol {symbol}: rebuild the cache")
        return pointer


_libraries: OnceTable[tuple[str, str], Library] = OnceTable()
_runtimes: OnceTable[str, Library] = OnceTable()
_ffi: OnceTable[str, ctypes.CDLL] = OnceTable()


def load(cache: Cache, artifact: Artifact) -> Library:
    """Open the library of an artifact, once per process, after the runtime library that it is linked against.

    Parameters
    ----------
    cache
        Where the bytes are.
    artifact
        An object of that cache, built for this host.
    """
    if artifact.kind != "object" or artifact.host is None:
        raise LoadError(f"{artifact.key[:12]} is a {artifact.kind}, not an object: upgrade precast-loader")
    if not artifact.symbol.startswith(ENTRY):
        raise LoadError(f"{artifact.symbol} is no TVM-FFI entry ({ENTRY}...): rebuild the cache")
    runtime = runtime_for(cache, artifact.host.arch)
    label = f"precast:{artifact.symbol.removeprefix(ENTRY)[:80]}-{artifact.key[:8]}"

    def make() -> Library:
        load_runtime(cache, runtime)
        return Library(artifact.blob.sha256, open_bytes(cache.read(artifact.blob), artifact.blob.sha256, label))

    return _libraries.get((artifact.blob.sha256, runtime.blob.sha256), make)


def runtime_for(cache: Cache, arch: str) -> Runtime:
    """The runtime library that a cache holds for a host processor."""
    for runtime in cache.index.runtimes:
        if runtime.host.arch == arch:
            return runtime
    raise LoadError(f"cache {cache.name!r} has no runtime library for {arch}: build the cache on such a host")


def load_runtime(cache: Cache, runtime: Runtime) -> Library:
    """Open a runtime library. The linker goes by its name alone, so the same name may not stand for two contents."""

    def make() -> Library:
        load_ffi()
        sha256 = runtime.blob.sha256
        return Library(sha256, open_bytes(cache.read(runtime.blob), sha256, f"precast:{runtime.soname}"))

    library = _runtimes.get(runtime.soname, make)
    if library.sha256 != runtime.blob.sha256:
        raise LoadError(
            f"{runtime.soname} of cache {cache.name!r} differs from the one of that name that is already open:"
            " rebuild the cache, or use it in a process of its own"
        )
    return library


def load_ffi() -> ctypes.CDLL:
    """Open ``libtvm_ffi.so`` out of the apache-tvm-ffi wheel, without importing that package."""

    def make() -> ctypes.CDLL:
        folder = locate("tvm_ffi")
        path = folder / "lib" / "libtvm_ffi.so" if folder else None
        if path is None or not path.is_file():
            raise LoadError("libtvm_ffi.so is not installed: pip install apache-tvm-ffi")
        return ctypes.CDLL(str(path), handle=_dlopen(str(path), "libtvm_ffi.so"))

    return _ffi.get("libtvm_ffi.so", make)


def open_bytes(code: bytes, sha256: str, label: str) -> int:
    """Give bytes to the dynamic linker through a sealed memory file, which is closed again once they are mapped.

    Returns the linker's handle of the library.

    The linker knows an open library by its path, and would hand out the library that had ``/proc/self/fd/N`` before.
    So the digest goes into the path, spelt in ways to write "this folder": equal paths are then equal bytes. It also
    knows one by its file's device and number. The mapping keeps the file, and with it the number, for as long as the
    library is open; but old kernels (before 5.9) count files with 32 bits and begin anew. So the linker is asked which
    library it gave, and where that is another one, a file with another number is tried.
    """
    held: list[int] = []
    try:
        for _ in range(_TRIES):
            held.append(_memory_file(code, label))
            path = f"/proc/self/fd/{spell(sha256)}{held[-1]}"
            library = _dlopen(path, label)
            if _record(library).path == path:
                return library
        raise LoadError(f"the dynamic linker takes {label} for a library that is open already: restart the process")
    except OSError as error:
        raise LoadError(f"{label} could not be put in memory ({error.strerror}): free some memory") from None
    finally:
        for file in held:
            os.close(file)


def _memory_file(code: bytes, label: str) -> int:
    """A file in memory that holds some bytes and can never hold others."""
    try:
        file = os.memfd_create(label, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        raise LoadError(
            f"this system gives no memory files ({error.strerror}): libraries are opened from one, so that nothing"
            " executable is written to disk; allow memfd_create (sysctl vm.memfd_noexec, seccomp profile)"
        ) from None
    try:
        rest = memoryview(code)
        while rest:
            rest = rest[os.write(file, rest) :]
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(file)
        raise
    return file


def spell(sha256: str) -> str:
    """A digest as steps that lead nowhere: ``/`` for 0, ``./`` for 1.

    >>> spell("5" + "0" * 63)[:6]
    '/.//./'
    """
    return format(int(sha256, 16), "0256b").replace("0", "/").replace("1", "./")


class _LinkMap(ctypes.Structure):
    """The part of the linker's record of a library that ``<link.h>`` makes public."""

    _fields_ = (("address", ctypes.c_void_p), ("name", ctypes.c_char_p))


class _Place(ctypes.Structure):
    """``Dl_info`` of ``<dlfcn.h>``."""

    _fields_ = (
        ("path", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


class LinkRecord(Immutable):
    """What the linker knows of an open library: the path by which it was opened first, and where it lies."""

    path: str
    base: int


@functools.cache
def _process() -> ctypes.PyDLL:
    """The dynamic linker, among the symbols of the process itself. Its errors belong to the thread that calls, and no
    other thread of Python's runs, or forks, meanwhile."""
    process = ctypes.PyDLL(None)
    process.dlopen.restype = process.dlsym.restype = ctypes.c_void_p
    process.dlerror.restype = ctypes.c_char_p
    return process


def address_in(handle: int, symbol: str) -> int | None:
    """Where a symbol is that a library has, or one that it needs; None where there is none."""
    found: int | None = _process().dlsym(ctypes.c_void_p(handle), symbol.encode())
    return found


def _record(library: int) -> LinkRecord:
    record = ctypes.POINTER(_LinkMap)()
    handle = ctypes.c_void_p(library)
    if _process().dlinfo(handle, _RTLD_DI_LINKMAP, ctypes.byref(record)) != 0 or not record:
        return LinkRecord("", -1)
    return LinkRecord((record.contents.name or b"").decode("ascii", "replace"), record.contents.address or 0)


def _base_of(address: int) -> int:
    """Where the library that an address belongs to lies."""
    place = _Place()
    found = _process().dladdr(ctypes.c_void_p(address), ctypes.byref(place))
    return int(place.base or 0) if found else -2


def _dlopen(path: str, label: str) -> int:
    handle: int | None = _process().dlopen(os.fsencode(path), _MODE)
    if handle is None:
        error = (_process().dlerror() or b"no reason").decode("utf-8", "replace")
        reason = error.replace(path, Path(path).name if label.startswith("lib") else label)
        raise LoadError(f"the dynamic linker refused {label}: {reason}. Check 'precast doctor'")
    return handle
