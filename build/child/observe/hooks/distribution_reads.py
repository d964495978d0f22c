"""Distribution reads: the installed distributions that are looked up through ``importlib.metadata``.

It caches what it reads, so that the files that it opens are not sufficient.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

Note = Callable[[str, str], None]


def watch_distributions(note: Note) -> None:
    """Note each distribution that is looked up by name, installed or not, and each listing of all."""
    kind: Any = importlib.metadata.Distribution
    discover, from_name = kind.discover.__func__, kind.from_name.__func__

    def record(name: object) -> None:
        if isinstance(name, str) and name:
            note("distribution", name)
        else:
            note("distributions", "*")

    def watched(cls: Any, /, **arguments: Any) -> Any:
        record(arguments.get("name") or getattr(arguments.get("context"), "name", None))
        return discover(cls, **arguments)

    def watched_name(cls: Any, name: str) -> Any:
        record(name)
        return from_name(cls, name)

    kind.discover = classmethod(watched)
    kind.from_name = classmethod(watched_name)  # Python 3.10's does not call discover
