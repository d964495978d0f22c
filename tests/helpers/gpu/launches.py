"""The stand-in for the driver that records launches (``native/launches.c``), read and told what to do."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from precast.loader.contract.format.program.host_program import HostProgram, Launch

_LAUNCHES, _KERNELS, _BYTES = 8, 8, 4096
_Three = ctypes.c_uint32 * 3


class _Recorded(ctypes.Structure):
    _fields_ = (
        ("launches", ctypes.c_int32), ("kernels", ctypes.c_int32 * _LAUNCHES), ("grid", _Three * _LAUNCHES),
        ("block", _Three * _LAUNCHES), ("shared", ctypes.c_uint32 * _LAUNCHES), ("cluster", _Three * _LAUNCHES),
        ("overlap", ctypes.c_uint32 * _LAUNCHES), ("stream", ctypes.c_uint64 * _LAUNCHES),
        ("parameters", (ctypes.c_ubyte * _BYTES) * _LAUNCHES), ("loads", ctypes.c_int32), ("unloads", ctypes.c_int32),
        ("sets", ctypes.c_int32), ("shared_set", ctypes.c_int32), ("pushes", ctypes.c_int32),
        ("pops", ctypes.c_int32), ("current", ctypes.c_int32), ("context", ctypes.c_int32),
        ("functions", ctypes.c_int32 * _LAUNCHES),
    )  # fmt: skip


class _Known(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 256), ("count", ctypes.c_int32), ("sizes", ctypes.c_int32 * 64))


class Launches:
    """One process's stand-in. It knows the kernels of one program at a time."""

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        self.recorded: Any = _Recorded.in_dll(library, "recorded")
        self._known = (_Known * _KERNELS).in_dll(library, "known")
        self._failing = (ctypes.c_char * 64).in_dll(library, "failing")

    def expect(self, program: HostProgram, *, extra: int = 0) -> None:
        """Forget what was recorded, and know a program's kernels, with ``extra`` bytes of padding."""
        ctypes.memset(ctypes.byref(self.recorded), 0, ctypes.sizeof(self.recorded))
        ctypes.memset(ctypes.byref(self._known), 0, ctypes.sizeof(self._known))
        self.fail("")
        for place, step in enumerate(program.steps):
            sizes = [parameter.size for parameter in step.parameters]
            self._known[place].name, self._known[place].count = step.kernel.encode(), len(sizes)
            for number, size in enumerate(sizes):
                self._known[place].sizes[number] = size + (extra if not number else 0)

    def fail(self, function: str) -> None:
        """Let a function of the driver fail from now on; none where it is empty. ``function``: a function's launch."""
        self._failing.value = function.encode()

    def take(self, program: HostProgram) -> list[tuple[str, Launch, tuple[bytes, ...]]]:
        """The launches since the last time, as a program gives them."""
        made, found = self.recorded, []
        assert made.launches <= _LAUNCHES, f"{made.launches} launches: the stand-in records {_LAUNCHES}"
        for i in range(made.launches):
            step, at, parts = program.steps[made.kernels[i]], 0, []
            for parameter in step.parameters:
                parts.append(bytes(made.parameters[i])[at : at + parameter.size])
                at += parameter.size
            launch = Launch(
                (made.grid[i][0], made.grid[i][1], made.grid[i][2]),
                (made.block[i][0], made.block[i][1], made.block[i][2]),
                (made.cluster[i][0], made.cluster[i][1], made.cluster[i][2]),
                made.shared[i],
                bool(made.overlap[i]),
            )
            found.append((step.kernel, launch, tuple(parts)))
        made.launches = 0
        return found


def in_threads(call: Callable[[int], object], *, threads: int = 4, turns: int = 50) -> None:
    """Call one kernel in threads beside each other, each so many turns; the first error of any is raised."""
    with ThreadPoolExecutor(threads) as pool:
        begin = threading.Barrier(threads)

        def work() -> None:
            begin.wait()
            for turn in range(turns):
                call(turn)

        for done in [pool.submit(work) for _ in range(threads)]:
            done.result()
