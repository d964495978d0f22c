"""precast.loader resolves, checks, loads and launches kernels that were compiled ahead of time.

It needs no compiler. Importing it imports neither torch nor tvm_ffi nor any cache.

>>> from precast import loader
>>> loader.get("scale", {"dtype": "bfloat16"}, target="sm_90a").op
'scale'
"""

from __future__ import annotations

import importlib

from precast.loader.locks import IMPORT_LOCK

TYPE_CHECKING = False  # typing's own would import typing, which takes longer than all of this
if TYPE_CHECKING:
    from typing import Any

    from precast.loader.api import caches, explain, freeze, get, jax_op, ops, stats, torch_op, variants
    from precast.loader.counts import Stats
    from precast.loader.errors import (
        CacheError,
        ConfigError,
        FormatError,
        Frozen,
        IntegrityError,
        LoadError,
        NoCudaDevice,
        OpNotFound,
        PrecastError,
        TargetError,
        VariantNotFound,
        WrongDevice,
    )
    from precast.loader.launch.kernel import Kernel
    from precast.loader.launch.kernel_opener import KernelOpener
    from precast.loader.preloading import Preload, preload
    from precast.loader.resolve.resolution import Resolution
    from precast.loader.session import Session, current_session, use

__all__ = [  # without attach: "from precast.loader import *" must not fail where precast-attach is not installed
    "CacheError",
    "ConfigError",
    "FormatError",
    "Frozen",
    "IntegrityError",
    "Kernel",
    "KernelOpener",
    "LoadError",
    "NoCudaDevice",
    "OpNotFound",
    "PrecastError",
    "Preload",
    "Resolution",
    "Session",
    "Stats",
    "TargetError",
    "VariantNotFound",
    "WrongDevice",
    "caches",
    "current_session",
    "explain",
    "freeze",
    "get",
    "jax_op",
    "ops",
    "preload",
    "stats",
    "torch_op",
    "use",
    "variants",
]

_HOMES = {
    **dict.fromkeys(("caches", "explain", "freeze", "get", "jax_op", "ops", "stats", "torch_op", "variants"), "api"),
    **dict.fromkeys(("Preload", "preload"), "preloading"),
    **dict.fromkeys(("Session", "current_session", "use"), "session"),
    "Kernel": "launch.kernel",
    "KernelOpener": "launch.kernel_opener",
    "Resolution": "resolve.resolution",
    "Stats": "counts",
}


def __getattr__(name: str) -> Any:
    """Import a name at its first use: a program does not pay for what it does not use."""
    if name == "attach":  # a package that can be called
        with IMPORT_LOCK:
            return importlib.import_module(f"{__name__}.attach")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with IMPORT_LOCK:
        module = importlib.import_module(f"{__name__}.{_HOMES.get(name, 'errors')}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "attach"})
