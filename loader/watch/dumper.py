"""The dumper: dumps each call before it is launched, and keeps the last few calls of a process.

Before a dump the process waits for all work of the GPU: where that reports an error, the last dumped call caused it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from precast.loader.contract.diagnostics.dump import Dump
from precast.loader.contract.diagnostics.dump_folder import call_name, remove_dump, write_dump
from precast.loader.fork_safe import ForkSafeLock
from precast.loader.launch.kernel import Kernel
from precast.loader.machine.driver import Driver
from precast.loader.resolve.cache import Cache
from precast.loader.watch.memory import GpuFailed, bytes_of, describe_arguments
from precast.loader.watch.notice import notice

LIMIT = 16 << 20
CALLS = 4


class Dumper:
    """Writes calls below a folder, those of each process in a folder of their own.

    Parameters
    ----------
    folder
        ``PRECAST_DUMP``.
    limit
        How many bytes of memory are written for one call.
    calls
        How many calls of a process are kept.
    driver
        The CUDA driver; used only for tensors on a device.
    """

    def __init__(self, folder: str, limit: int, calls: int, driver: Callable[[], Driver]) -> None:
        self.lock = ForkSafeLock()  # held through the launch, so that the last dump is that of the last launch
        self._root, self._limit, self._calls, self._driver = Path(folder), limit, calls, driver
        self._process, self._number, self._folder = 0, 0, Path()

    @classmethod
    def of(cls, variables: Mapping[str, str], driver: Callable[[], Driver]) -> Dumper | None:
        """The dumper that the variables turn on, or None."""
        folder = variables.get("PRECAST_DUMP", "")
        if not folder:
            return None
        limit = _number("PRECAST_DUMP_LIMIT", variables.get("PRECAST_DUMP_LIMIT", ""), LIMIT)
        calls = _number("PRECAST_DUMP_CALLS", variables.get("PRECAST_DUMP_CALLS", ""), CALLS)
        return cls(folder, limit, max(1, calls), driver)

    def write(self, kernel: Kernel, cache: Cache, values: Sequence[Any]) -> None:
        """Dump a call. A failure is reported once, and the call continues."""
        try:
            self._write(kernel, cache, values)
        except GpuFailed as error:
            last = self._folder / call_name(self._number - 1)
            notice(f"the GPU failed before a call of {kernel.op} was launched ({error}); the last call was {last}")
        except Exception as error:
            notice(f"PRECAST_DUMP: could not dump a call of {kernel.op} ({error})")

    def _write(self, kernel: Kernel, cache: Cache, values: Sequence[Any]) -> None:
        signature = kernel.signature
        if len(values) != len(signature.passed):
            return  # the call is refused before anything is launched
        if self._process != os.getpid():
            self._process, self._number = os.getpid(), 0
            self._folder = self._root / f"{self._process}-{time.time_ns()}"
        described = describe_arguments(signature.passed, values)
        blocks, data = bytes_of(described.blocks, self._limit, self._driver)
        dump = Dump(
            op=kernel.op,
            config=kernel.config,
            target=kernel.target,
            key=kernel.artifact.key,
            cache=cache.name,
            digest=cache.digest,
            signature=signature,
            process=self._process,
            number=self._number,
            stream=any(argument.kind in ("env_stream", "stream") for argument in signature.arguments),
            arguments=described.arguments,
            blocks=blocks,
        )
        self._keep(dump, data)

    def _keep(self, dump: Dump, data: Sequence[bytes | None]) -> None:
        write_dump(self._folder, dump, data)
        self._number += 1
        remove_dump(self._folder, dump.number - self._calls)


def _number(variable: str, text: str, default: int) -> int:
    if not text:
        return default
    if text.isascii() and text.isdecimal() and len(text) < 16:
        return int(text)
    notice(f"{variable}={text[:40]!r} is not a number: using {default}")
    return default
