"""A kernel whose calls are dumped before they are launched, and whose errors are logged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from precast.loader.launch.kernel import Kernel

if TYPE_CHECKING:
    import logging

    from precast.loader.launch.native_program import NativeProgram
    from precast.loader.resolve.cache import Cache
    from precast.loader.watch.dumper import Dumper


class WatchedKernel(Kernel):
    """Wraps a kernel of a watched session: dumps its calls, and logs its first launch and its errors."""

    def __init__(self, inner: Kernel, cache: Cache, log: logging.Logger | None, dumper: Dumper | None) -> None:
        super().__init__(inner.op, inner.artifact, inner, inner._machine, inner.doc)
        self.cache = inner.cache
        self._inner, self._cache, self._log, self._dumper = inner, cache, log, dumper
        self._launched = False

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch on the caller's current stream."""
        if named:
            args = self._ordered(args, named)
        try:
            if not self._launched:
                return self._first_launch(args)
            return self._inner(*args) if self._dumper is None else self._dumped(args, self._dumper)
        except Exception as error:
            if self._log is not None:
                self._log.error("a call of %s failed: %s: %s", self._title, type(error).__name__, error)
            raise

    @property
    def launcher(self) -> NativeProgram | None:
        """What launches a cubin; None for an object."""
        return self._inner.launcher

    def check_device(self) -> None:
        """Check now what the first call would check."""
        self._inner.check_device()

    @property
    def _title(self) -> str:
        return f"{self.op} {self.artifact.key[:12]} for {self.target}"

    def _first_launch(self, args: tuple[Any, ...]) -> Any:
        self._inner.check_device()  # a call that is refused for its device is not dumped
        if self._log is not None:
            self._log.info("first launch of %s", self._title)
        start = time.perf_counter()
        result = self._inner(*args) if self._dumper is None else self._dumped(args, self._dumper)
        self._launched = True
        if self._log is not None:
            taken = (time.perf_counter() - start) * 1e3
            self._log.info("first launch of %s is queued after %.2f ms", self._title, taken)
        return result

    def _dumped(self, args: tuple[Any, ...], dumper: Dumper) -> Any:
        with dumper.lock:
            dumper.write(self._inner, self._cache, args)
            return self._inner(*args)
