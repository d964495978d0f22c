"""The decoder in the package zstandard, without the package.

The package's own first lines import ``platform``, which takes as long as loading a kernel. The native module that it
would import next has all that a cache needs.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
from importlib.machinery import PathFinder
from typing import Any

from precast.loader.fast_start.installed import locate
from precast.loader.import_lock import IMPORT_LOCK


@functools.cache
def zstandard_backend() -> Any:
    """The native module of zstandard; the package itself where it is loaded, or built with another backend.

    >>> hasattr(zstandard_backend(), "ZstdDecompressor")
    True
    """
    with IMPORT_LOCK:
        if "zstandard" not in sys.modules:
            folder = locate("zstandard")
            spec = PathFinder.find_spec("zstandard.backend_c", [str(folder)]) if folder else None
            if spec is not None and spec.loader is not None:
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module
        import zstandard
    return zstandard
