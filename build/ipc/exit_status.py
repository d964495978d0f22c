"""Exit statuses of processes, described in words."""

from __future__ import annotations

import signal


def describe_exit(code: int) -> str:
    """How a process ended, by the code that ``subprocess`` gives.

    >>> describe_exit(3), describe_exit(-11)
    ('ended with exit status 3', 'was ended by SIGSEGV')
    >>> describe_exit(-9)
    'was ended by SIGKILL; it may have run out of memory'
    """
    if code >= 0:
        return f"ended with exit status {code}"
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    return f"was ended by {name}{'; it may have run out of memory' if name == 'SIGKILL' else ''}"
