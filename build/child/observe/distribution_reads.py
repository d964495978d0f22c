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

    kind.discover = classmethod(watched)
