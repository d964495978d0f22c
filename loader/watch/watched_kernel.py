"""A kernel whose first launch and whose errors are logged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from precast.loader.launch.kernel import Kernel

if TYPE_CHECKING:
    import logging

    from precast.loader.launch.native_program import NativeProgram


class WatchedKernel(Kernel):
    """Wraps a kernel of a session that logs: its first launch and its errors are written to the log."""

    def __init__(self, inner: Kernel, log: logging.Logger) -> None:
        super().__init__(inner.op, inner.artifact, inner, inner._machine, inner.doc)
        self.cache = inner.cache
        self._inner, self._log = inner, log
        self._launched = False

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Launch on the caller's current stream."""
        if named:
            args = self._ordered(args, named)
        try:
            return self._inner(*args) if self._launched else self._first_launch(args)
        except Exception as error:
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
        self._inner.check_device()  # a call that its device refuses is not logged
        self._log.info("first launch of %s", self._title)
        start = time.perf_counter()
        result = self._inner(*args)
        self._launched = True
        taken = (time.perf_counter() - start) * 1e3
        self._log.info("first launch of %s is queued after %.2f ms", self._title, taken)
        return result
