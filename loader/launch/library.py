"""Libraries: the checked bytes of an artifact, opened by the dynamic linker without a file on any disk.

The dynamic linker's tables belong to the process. So where it matters which runtime libraries are
open, the linker itself is queried for their names.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.index import Runtime
from precast.loader.contract.values import Immutable
from precast.loader.errors import LoadError
from precast.loader.fast_start.installed import locate
from precast.loader.locks import ForkWaits, OnceTable
from precast.loader.resolve.cache import Cache

ENTRY = "__tvm_ffi_"
# TVM-FFI's functions that allocate, give the allocator, or lead to any other function.
_ALLOCATING = (b"TVMFFIEnvTensorAlloc", b"TVMFFIEnvGetDLPackManagedTensorAllocator", b"TVMFFIFunction")
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_TRIES = 3
_RTLD_DI_LINKMAP = 2
_MODE = os.RTLD_NOW | os.RTLD_LOCAL
_MEMORY = "/proc/self/fd/"
_OPENED = "/proc/self/md/"  # the linker's name of what was opened there; there is no such folder
# A fork waits for it. Otherwise another thread could fork between a dlopen and the change of the library's path, or, in
# a free-threaded Python, in the middle of the dlopen, and the child would find the library half opened.
_LINKING = ForkWaits()


class Library(Immutable, eq=False):
    """A library that this process has open. It is never closed: a stream may still run its code."""

    sha256: str
    handle: int = field(repr=False)
    allocates: bool = True  # whether its code may ask TVM-FFI's environment for memory

    def address(self, symbol: str) -> int:
        """The address of a symbol of the library itself; a symbol of a library that it needs is refused."""
        pointer = address_in(self.handle, symbol)
        if not pointer or _base_of(pointer) != _link_info(self.handle).base:
            raise LoadError(f"the library {self.sha256[:12]} has no symbol {symbol}: rebuild the cache")
        return pointer


class Libraries:
    """Libraries of caches, each opened once.

    Parameters
    ----------
    opener
        What gives bytes to the linker, ``open_bytes`` if None; a test counts or refuses with one of its own.

    Two of these may open the same bytes twice. The linker then gives one library for both, or a second copy of it; both
    are the same code, bound to the same runtime library.
    """

    def __init__(self, opener: Callable[[bytes, str, str], int] | None = None) -> None:
        self.open_bytes = opener or open_bytes
        self._variants = OnceTable()
        self._runtimes = OnceTable()

    @property
    def runtimes(self) -> tuple[Library, ...]:
        """The runtime libraries that were opened."""
        return self._runtimes.values()

    def load(self, cache: Cache, artifact: Artifact) -> Library:
        """Open the library of an artifact, after the runtime library that it is linked against.

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
            raise LoadError(f"{artifact.symbol} is not a TVM-FFI entry ({ENTRY}...): rebuild the cache")
        runtime = runtime_for(cache, artifact.host.arch)
        label = f"precast:{artifact.symbol.removeprefix(ENTRY)[:80]}-{artifact.key[:8]}"
        sha256 = artifact.blob.sha256

        def make() -> Library:
            self.load_runtime(cache, runtime)
            code = cache.read(artifact.blob)
            return Library(sha256, self.open_bytes(code, sha256, label), allocates=may_allocate(code))

        return self._variants.get((sha256, runtime.soname, runtime.blob.sha256), make)

    def load_runtime(self, cache: Cache, runtime: Runtime) -> Library:
        """Open a runtime library. The linker finds it by its name alone, so one name must not have two contents."""
        soname, blob = runtime.soname, runtime.blob
        sha256 = blob.sha256

        def make() -> Library:
            load_ffi()
            code = cache.read(blob)
            if _open_under(soname) is None:
                self.open_bytes(code, sha256, f"precast:{soname}")
            handle = _open_under(soname)
            if handle is None or not _link_info(handle).path.startswith(_OPENED + digest_path(sha256)):
                raise LoadError(
                    f"{soname} of cache {cache.name!r} differs from the one of that name that is already open:"
                    " rebuild the cache, or use it in a process of its own"
                )
            return Library(sha256, handle)

        return self._runtimes.get((soname, sha256), make)


def may_allocate(code: bytes) -> bool:
    """Whether a library may ask TVM-FFI for memory: what it takes from other libraries, it names.

    >>> may_allocate(b"TVMFFIEnvGetStream"), may_allocate(b"TVMFFIEnvGetStream, TVMFFIEnvTensorAlloc")
    (False, True)
    """
    # The C library's search takes half of the time of that of bytes.
    return any(_process().memmem(code, len(code), name, len(name)) for name in _ALLOCATING)


def runtime_for(cache: Cache, arch: str) -> Runtime:
    """The runtime library that a cache holds for a host processor."""
    for runtime in cache.index.runtimes:
        if runtime.host.arch == arch:
            return runtime
    raise LoadError(f"cache {cache.name!r} has no runtime library for {arch}: build the cache on such a host")


@functools.cache
def load_ffi() -> ctypes.CDLL:
    """Open ``libtvm_ffi.so`` out of the apache-tvm-ffi wheel, without importing that package."""
    folder = locate("tvm_ffi")
    path = folder / "lib" / "libtvm_ffi.so" if folder else None
    if path is None or not path.is_file():
        raise LoadError("libtvm_ffi.so is not installed: pip install apache-tvm-ffi")
    return ctypes.CDLL(str(path), handle=_dlopen(str(path), "libtvm_ffi.so"))


def open_bytes(code: bytes, sha256: str, label: str) -> int:
    """Give bytes to the dynamic linker through a sealed memory file, which is closed again once they are mapped.

    Returns the linker's handle of the library.

    The linker knows an open library by its path, and would return the library that had ``/proc/self/fd/N`` before. So
    the path holds the digest (``digest_path``): equal paths then mean equal bytes. The linker also knows a library by
    its file's device and inode. The mapping keeps the file, and with it the inode, for as long as the library is open;
    but old kernels (before 5.9) number inodes with 32 bits and start again. So the path of the returned
    library is checked, and if it is another one, a file with another inode is tried.

    Code that lists the open libraries gets that path, and reads symbols from it, as TVM-FFI does for the traceback
    of an error. The number N is another file's by then, and reading an empty file ends the process with a bus
    error. So the path is replaced by one that does not exist.
    """
    files: list[int] = []
    try:
        for _ in range(_TRIES):
            files.append(_memory_file(code, label))
            name = f"{digest_path(sha256)}{files[-1]}"
            library = _dlopen(_MEMORY + name, label)
            if _link_info(library).path == _OPENED + name:
                return library
        raise LoadError(f"the dynamic linker takes {label} for a library that is open already: restart the process")
    except OSError as error:
        raise LoadError(f"{label} could not be put in memory ({error.strerror}): free some memory") from None
    finally:
        for file in files:
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


def digest_path(sha256: str) -> str:
    """A digest as a path that stays in the same folder: ``/`` for a bit that is 0, ``./`` for a bit that is 1.

    >>> digest_path("5" + "0" * 63)[:6]
    '/.//./'
    """
    return format(int(sha256, 16), "0256b").replace("0", "/").replace("1", "./")


class LinkInfo(Immutable):
    """What the linker knows of an open library: the path by which it was opened first, and its base address."""

    path: str
    base: int


@functools.cache
def _process() -> ctypes.PyDLL:
    """The symbols of the process itself, with those of the dynamic linker. A PyDLL keeps the interpreter's lock, where
    there is one, so that no other Python thread calls the linker, or forks, between a call and ``dlerror``."""
    process = ctypes.PyDLL(None)
    process.dlopen.restype = process.dlsym.restype = process.memmem.restype = ctypes.c_void_p
    process.memmem.argtypes = (ctypes.c_char_p, ctypes.c_size_t) * 2
    process.dlerror.restype = ctypes.c_char_p
    return process


def address_in(handle: int, symbol: str) -> int | None:
    """The address of a symbol of a library, or of one that it needs; None where there is none."""
    address: int | None = _process().dlsym(ctypes.c_void_p(handle), symbol.encode())
    return address


def _link_info(library: int) -> LinkInfo:
    base, path = _link_map(library)
    return LinkInfo(ctypes.string_at(path).decode("ascii", "replace") if path else "", base)


def _link_map(library: int) -> tuple[int, int]:
    """The public part of the linker's ``struct link_map``: the base address, and where the path stands."""
    link_map = ctypes.POINTER(ctypes.c_void_p)()
    handle = ctypes.c_void_p(library)
    if _process().dlinfo(handle, _RTLD_DI_LINKMAP, ctypes.byref(link_map)) != 0 or not link_map:
        return -1, 0
    base, path = link_map[:2]
    return base or 0, path or 0


def _rename(library: int) -> None:
    """Replace the path of a library that was opened from a memory file by one that does not exist."""
    _, path = _link_map(library)
    if path and ctypes.string_at(path).startswith(_MEMORY.encode()):
        ctypes.memmove(path, _OPENED.encode(), len(_OPENED))


def _base_of(address: int) -> int:
    """The base address of the library that an address belongs to; -2 for an address in no library."""
    info = (ctypes.c_void_p * 4)()  # ``Dl_info``: path, base address, symbol, its address
    inside = _process().dladdr(ctypes.c_void_p(address), ctypes.byref(info))
    return int(info[1] or 0) if inside else -2


def _open_under(soname: str) -> int | None:
    """The handle of the library that is open under a SONAME, or None. Nothing is loaded."""
    handle: int | None = _process().dlopen(soname.encode(), _MODE | os.RTLD_NOLOAD)
    return handle


def _dlopen(path: str, label: str) -> int:
    with _LINKING:
        handle: int | None = _process().dlopen(os.fsencode(path), _MODE)
        error = "" if handle is not None else (_process().dlerror() or b"no reason").decode("utf-8", "replace")
        if handle is not None and path.startswith(_MEMORY):
            _rename(handle)
    if handle is None:
        reason = error.replace(path, Path(path).name if label.startswith("lib") else label)
        raise LoadError(f"the dynamic linker refused {label}: {reason}. Check 'precast doctor'")
    return handle
