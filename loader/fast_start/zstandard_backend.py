"""The decoder in the package zstandard, without the package; where that is not installed, Python's own.

The package's own first lines import ``platform``, which takes as long as loading a kernel. The native module that it
would import next has all that a cache needs.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib.machinery import PathFinder
from typing import Any

from precast.loader.errors import CacheError
from precast.loader.fast_start.installed import locate
from precast.loader.locks import IMPORT_LOCK


@functools.cache
def zstandard_backend() -> Any:
    """The native module of zstandard; the package itself where it is loaded, or built with another backend.

    Where the package is not installed, Python's own decoder, which 3.14 and later have: there are no wheels of the
    package for a free-threaded Python.

    >>> hasattr(zstandard_backend(), "ZstdDecompressor")
    True
    """
    with IMPORT_LOCK:
        if "zstandard" not in sys.modules:
            folder = locate("zstandard")
            if folder is None:
                return _own()
            spec = PathFinder.find_spec("zstandard.backend_c", [str(folder)])
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
        import zstandard
    return zstandard


def _own() -> Any:
    """Python's own decoder; a Python may be built without it."""
    if sys.version_info >= (3, 14) and importlib.util.find_spec("_zstd") is not None:
        from precast.loader.fast_start.python_zstd import PythonZstd

        return PythonZstd()
    raise CacheError("zstandard is not installed, and this Python has no decoder: pip install zstandard")
