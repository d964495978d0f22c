"""FlashAttention-4: the version, the head sizes it takes, and how its functions are compiled without a GPU."""

from __future__ import annotations

from typing import Any

from precast.kernels import configs
from precast.kernels.adapters.fake_tensors import fake_tensors
from precast.kernels.adapters.pinned_package import PinnedPackage
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring.dtypes import to_torch
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

FLASH = PinnedPackage(distribution="flash-attn-4", version="4.0.0b36", extra="flash-attention")
INTERFACE = "flash_attn.cute.interface"
TARGETS = ("sm_90a", "sm_100a", "sm_103a")
DTYPES = ("float16", "bfloat16")


def refusal(config: Config, target: Target) -> str | None:
    """Why a config cannot be built: a library is missing, or the dtype or the heads are not for its kernels."""
    reason = FLASH.obstacle() or QUACK.obstacle()
    if reason:
        return reason
    if config["dtype"] not in DTYPES:
        return f"dtype {config['dtype']!r} is not supported: use one of {', '.join(DTYPES)}"
    group = configs.integer(config, "heads_per_kv") if "heads_per_kv" in config else 1
    if not 1 <= group <= 128:
        return f"heads_per_kv is {group}: use a number from 1 to 128"
    size = configs.integer(config, "head_dim")
    return head_refusal(
        size, size if config.get("head_dim_v") is None else configs.integer(config, "head_dim_v"), target
    )


def head_refusal(size: int, size_v: int, target: Target) -> str | None:
    """Why heads of these sizes cannot be built for a target, or None.

    >>> head_refusal(100, 100, Target.parse("sm_90a"))
    'head_dim is 100 and head_dim_v 100: use multiples of 8'
    >>> head_refusal(192, 192, Target.parse("sm_100a"))
    'head_dim is 192 and head_dim_v 192: sm_100a takes both up to 128, or 192 and 128'
    """
    pair = f"head_dim is {size} and head_dim_v {size_v}"
    if size % 8 or size_v % 8 or min(size, size_v) < 8:
        return f"{pair}: use multiples of 8"
    if target.major == 9:
        return None if max(size, size_v) <= 256 else f"{pair}: {target} takes both up to 256"
    if max(size, size_v) <= 128 or (size, size_v) == (192, 128):
        return None
    return f"{pair}: {target} takes both up to 128, or 192 and 128"


def tensor(shape: tuple[int, ...], dtype: str) -> Any:
    """A tensor of the target's GPU that has no memory; inside ``run`` only."""
    import torch

    return torch.empty(shape, dtype=to_torch(dtype), device="cuda")


def run(function: str, arguments: Any, *caches: str) -> Any:
    """Run one of the library's functions without a GPU, and return the objects that it compiled for these caches.

    ``arguments`` makes the arguments by name, where tensors have no memory. The caches are those of functions of the
    same module. Each is replaced by an empty one, so that nothing comes from an earlier run or from a disk.
    """
    interface = FLASH.module(INTERFACE)
    compiled: list[dict[Any, Any]] = []
    for name in caches:
        compiled.append({})
        getattr(interface, name).compile_cache = compiled[-1]
    with fake_tensors():
        FLASH.call(f"{INTERFACE}:{function}", **arguments())
    return tuple(kernel for cache in compiled for kernel in cache.values())
