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
    discover, from_name = kind.discover.__func__, kind.from_name.__func__

    def asked(name: object) -> None:
        if isinstance(name, str) and name:
            note("distribution", name)
        else:
            note("distributions", "*")

    def watched(cls: Any, /, **arguments: Any) -> Any:
        asked(arguments.get("name") or getattr(arguments.get("context"), "name", None))
        return discover(cls, **arguments)

    def watched_name(cls: Any, name: str) -> Any:
        asked(name)
        return from_name(cls, name)

    kind.discover = classmethod(watched)
    kind.from_name = classmethod(watched_name)  # Python 3.10's does not call discover
