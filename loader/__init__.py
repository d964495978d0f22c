"""precast.loader resolves, checks, loads and launches kernels that were compiled ahead of time.

It needs no compiler. Importing it imports neither torch nor tvm_ffi nor any cache.

>>> from precast import loader
>>> loader.get("scale", {"dtype": "bfloat16"}, target="sm_90a").op
'scale'
"""

from __future__ import annotations

from precast.loader.api import caches, explain, get, ops, variants
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
from precast.loader.kernel import Kernel
from precast.loader.preload import Preload, preload
from precast.loader.resolve import Resolution
from precast.loader.state import Stats, freeze, stats
from precast.loader.torch_op import torch_op

__all__ = [
    "CacheError",
    "ConfigError",
    "FormatError",
    "Frozen",
    "IntegrityError",
    "Kernel",
    "LoadError",
    "NoCudaDevice",
    "OpNotFound",
    "PrecastError",
    "Preload",
    "Resolution",
    "Stats",
    "TargetError",
    "VariantNotFound",
    "WrongDevice",
    "caches",
    "explain",
    "freeze",
    "get",
    "ops",
    "preload",
    "stats",
    "torch_op",
    "variants",
]
