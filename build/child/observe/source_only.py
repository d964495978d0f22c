"""Source only: modules outside of installed distributions are compiled from their text, never read from byte code.

Python trusts byte code by the time stamp and size of its source. A generated file that is written again with the same
stamp and size would run as it was before, while its content, which is in the key, is new.
"""

from __future__ import annotations

from importlib.machinery import SourceFileLoader
from typing import Any

from precast.build.child.observe.code_locations import is_installed, is_standard


def import_from_source() -> None:
    """From now on, byte code is neither read nor written for such modules."""
    original = SourceFileLoader.path_stats

    def path_stats(loader: SourceFileLoader, path: Any) -> Any:
        if is_installed(str(path)) or is_standard(str(path)):
            return original(loader, path)
        raise OSError("byte code is not used here")  # the import system then reads the source

    SourceFileLoader.path_stats = path_stats  # type: ignore[assignment, method-assign]
