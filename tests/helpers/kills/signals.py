"""What is done to a process."""

from __future__ import annotations

import os
import random
import signal
import threading
from contextlib import suppress
from enum import Enum


class Signal(Enum):
    """A signal, or a pair of them."""

    KILL = "SIGKILL"
    TERMINATE = "SIGTERM"
    STOP = "SIGSTOP"
    PAUSE = "SIGSTOP, then SIGCONT"

    def send(self, pid: int, chances: random.Random) -> bool:
        """Deliver it; whether there was such a process."""
        first = signal.SIGSTOP if self is Signal.PAUSE else signal.Signals[self.value]
        with suppress(ProcessLookupError):
            os.kill(pid, first)
            if self is Signal.PAUSE:
                proceed = threading.Timer(chances.uniform(0.02, 1.5), resume, [pid])
                proceed.daemon = True
                proceed.start()
            return True
        return False


def resume(pid: int) -> None:
    """Continue a stopped process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)
