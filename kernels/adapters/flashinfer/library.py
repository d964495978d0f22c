"""FlashInfer: its version, and what it needs of a config."""

from __future__ import annotations

import os
from typing import Any

from precast.kernels import configs
from precast.kernels.adapters.pinned_package import PinnedPackage
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

FLASHINFER = PinnedPackage(distribution="flashinfer-python", version="0.7.2.post1", extra="flashinfer")
_DTYPES = ("float16", "bfloat16")
_DIVISOR, _WIDEST = 8, 65_536  # of columns: 16 bytes hold 8


def compiled(source: str, **arguments: Any) -> Any:
    """Call one of its compile functions, with its cache on disk disabled: a kernel there may be for another target."""
    os.environ["FLASHINFER_CUTE_DSL_DISABLE_CACHE"] = "1"
    return FLASHINFER.call(source, **arguments)


def sm_version() -> int:
    """The target as the library writes it: 90, 100."""
    target = Target.parse(os.environ["CUTE_DSL_ARCH"])
    return target.major * 10 + target.minor


def refusal(config: Config) -> str | None:
    """Why a config cannot be built, or None: the library is missing, or does not support the dtype or the width."""
    reason = FLASHINFER.obstacle()
    if reason:
        return reason
    if config["dtype"] not in _DTYPES:
        return f"dtype {config['dtype']!r} is not supported: use one of {', '.join(_DTYPES)}"
    return width_refusal(configs.integer(config, "hidden"))


def width_refusal(hidden: int) -> str | None:
    """Why the kernels do not take a width, or None.

    >>> width_refusal(1001)
    'hidden is 1001, which 8 does not divide: use 1000 or 1008'
    """
    if not _DIVISOR <= hidden <= _WIDEST:
        return f"hidden is {hidden}: use a multiple of {_DIVISOR} up to {_WIDEST}"
    below = hidden // _DIVISOR * _DIVISOR
    if hidden != below:
        return f"hidden is {hidden}, which {_DIVISOR} does not divide: use {below} or {below + _DIVISOR}"
    return None
