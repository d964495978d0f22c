"""Source only: modules outside of installed distributions are compiled from source, never read from byte code.

Python identifies byte code by the time and size of its source. A generated file that is rewritten with the same time
and size would run the old code, while the key covers the new content. What several variants import is compiled once by
the process that they are forked from, and used where the source that is read has the same bytes.
Byte code of installed packages that has a digest of its source is compared with that, even if it says that nobody need.
"""

from __future__ import annotations

import _imp
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

from precast.build.child.code_locations import is_installed, is_standard
from precast.loader.regular_file import read_regular

_LONGEST = 16 << 20


class SourceOnly:
    """How this process, and those that are forked from it, import such modules.

    >>> source_only = SourceOnly()
    >>> source_only.hold(["/proc/nowhere.py"])
    >>> source_only.files
    ('/proc/nowhere.py',)
    """

    def __init__(self) -> None:
        self._files: dict[str, None] = {}
        self._held: dict[str, tuple[bytes, CodeType]] = {}

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were compiled or held."""
        return tuple(self._files)

    def install(self) -> SourceOnly:
        """From now on, byte code is neither read nor written for such modules."""
        _imp.check_hash_based_pycs = "always"
        path_stats, source_to_code = SourceFileLoader.path_stats, SourceFileLoader.source_to_code

        def stats(loader: SourceFileLoader, path: Any) -> Any:
            if is_installed(str(path)) or is_standard(str(path)):
                return path_stats(loader, path)
            raise OSError("byte code is not used here")  # the import system then reads the source

        def compiled(loader: SourceFileLoader, data: Any, path: Any, **options: Any) -> CodeType:
            held = self._held.get(path) if isinstance(path, str) and not options else None
            if held is not None and held[0] == data:
                return held[1]
            if isinstance(path, str) and not is_installed(path) and not is_standard(path):
                self._files[path] = None
            code: CodeType = source_to_code(loader, data, path, **options)
            return code

        SourceFileLoader.path_stats = stats  # type: ignore[assignment, method-assign]
        SourceFileLoader.source_to_code = compiled  # type: ignore[method-assign, assignment]
        return self

    def hold(self, files: Iterable[str]) -> None:
        """Compile files that a fork of this process has compiled, for those that are forked next."""
        for file in files:
            if file not in self._files:
                self._files[file] = None
                with suppress(Exception):  # its importer has the error
                    data = read_regular(file, _LONGEST)
                    self._held[file] = data, compile(data, file, "exec", dont_inherit=True)
