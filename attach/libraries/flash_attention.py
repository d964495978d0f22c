"""FlashAttention-4: each function that compiles keeps its kernels in a mapping, its attribute ``compile_cache``."""

from __future__ import annotations

from precast.attach.deferred.triton import Triton
from precast.attach.library import Library
from precast.attach.seams.hooks import CacheAttribute


def ceil_div(numerator: int, denominator: int) -> int:
    """Integer division, rounded up. The front end calls the DSL's function for it, with plain integers."""
    return -(-int(numerator) // int(denominator))


LIBRARY = Library(
    name="flash_attention",
    distribution="flash-attn-4",
    package="flash_attn",
    seams=(
        Triton("flash_attn.cute.cute_dsl_utils"),  # to print machine code
        CacheAttribute("flash_attn.cute.interface", "compile_cache"),
        CacheAttribute("flash_attn.cute.compute_block_sparsity", "compile_cache"),
    ),
    imports=("quack",),
    environment={"FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED": "0"},
    answers={"cutlass.cute:ceil_div": ceil_div},
)
