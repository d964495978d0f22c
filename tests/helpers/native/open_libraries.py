"""The libraries of this process, as the dynamic linker tells them to who reads their symbols."""

from __future__ import annotations

import ctypes
import os

_Visit = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t, ctypes.c_void_p)


def open_libraries() -> list[str]:
    """Their paths."""
    paths: list[str] = []

    def visit(info: ctypes._Pointer[ctypes.c_void_p], size: int, data: int) -> int:
        paths.append(os.fsdecode(ctypes.string_at(info[1] or 0)))  # ``struct dl_phdr_info``: base address, path
        return 0

    ctypes.CDLL(None).dl_iterate_phdr(_Visit(visit), None)
    return paths
