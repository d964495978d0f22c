"""Source only: modules outside of installed distributions are compiled from source, never read from byte code.

Python identifies byte code by the time and size of its source. A generated file that is rewritten with the same time
and size would run the old code, while the key covers the new content.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from typing import Any

from precast.build.child.observe.code_locations import is_installed, is_standard


def import_from_source(note: Callable[[str], None]) -> None:
    """From now on, byte code is neither read nor written for such modules. Each module whose code is loaded is noted by
    its name."""
    original = SourceFileLoader.path_stats

    def path_stats(loader: SourceFileLoader, path: Any) -> Any:
        note(loader.name)
        if is_installed(str(path)) or is_standard(str(path)):
            return original(loader, path)
        raise OSError("byte code is not used here")  # the import system then reads the source

    SourceFileLoader.path_stats = path_stats  # type: ignore[assignment, method-assign]
