"""FlashInfer: its version, and what its kernels have in common."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from precast.kernels.adapters.pinned_package import PinnedPackage
from precast.kernels.authoring import configs
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

FLASHINFER = PinnedPackage(distribution="flashinfer-python", version="0.7.2.post1", extra="flashinfer")
HALVES = ("float16", "bfloat16")
_WIDEST = 65_536


def compiled(source: str, **arguments: Any) -> Any:
    """Call one of its compile functions, with its cache on disk disabled."""
    without_disk_cache()
    return FLASHINFER.call(source, **arguments)


def without_disk_cache() -> None:
    """Disable its cache on disk: what it holds may be compiled for another target, or by someone else."""
    os.environ["FLASHINFER_CUTE_DSL_DISABLE_CACHE"] = "1"


def sm_version() -> int:
    """The target as the library writes it: 90, 100."""
    target = Target.parse(os.environ["CUTE_DSL_ARCH"])
    return target.major * 10 + target.minor


def refusal(config: Config, *, dtypes: Sequence[str] = HALVES, width: str = "hidden", divisor: int = 8) -> str | None:
    """Why a config cannot be built, or None: the library is missing, or does not support the dtype or the width."""
    reason = FLASHINFER.obstacle()
    if reason:
        return reason
    if config["dtype"] not in dtypes:
        return f"dtype {config['dtype']!r} is not supported: use one of {', '.join(dtypes)}"
    return width_refusal(width, configs.integer(config, width), divisor)


def width_refusal(name: str, size: int, divisor: int) -> str | None:
    """Why the kernels do not take a width, or None.

    >>> width_refusal("hidden", 100, 16)
    'hidden is 100, which 16 does not divide: use 96 or 112'
    """
    if not divisor <= size <= _WIDEST:
        return f"{name} is {size}: use a multiple of {divisor} up to {_WIDEST}"
    below = size // divisor * divisor
    if size != below:
        return f"{name} is {size}, which {divisor} does not divide: use {below} or {below + divisor}"
    return None
