"""The observer in a Python that an observed process starts: installed before it runs what it was started for.

``build/link/observer/start.c`` calls this.
"""

from __future__ import annotations


def observe_started() -> None:
    """Observe this process on behalf of the process whose log the observer's library writes to."""
    from precast.build.child.observe.observer import Observer

    Observer().install(started=True)
