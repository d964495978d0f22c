"""Distribution reads: which installed distributions are asked for through ``importlib.metadata``.

It remembers what it found, so that the files it reads do not tell.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

Note = Callable[[str, str], None]


def watch_distributions(note: Note) -> None:
    """Note each distribution that is asked for by its name, there or not, and whoever asks for all."""
    kind: Any = importlib.metadata.Distribution
    discover = kind.discover.__func__

    def watched(cls: Any, /, **arguments: Any) -> Any:
        name = arguments.get("name") or getattr(arguments.get("context"), "name", None)
        if isinstance(name, str):
            note("distribution", name)
        else:
            note("distributions", "*")
        return discover(cls, **arguments)

    from_name = kind.from_name.__func__

    def watched_name(cls: Any, name: str) -> Any:
        note("distribution", name)
        return from_name(cls, name)

    kind.discover = classmethod(watched)
    kind.from_name = classmethod(watched_name)  # which does not call discover in Python 3.10
