"""quack: its version, and what its kernels have in common."""

from __future__ import annotations

from math import gcd

from precast.kernels.adapters.pinned_package import PinnedPackage
from precast.kernels.authoring import configs
from precast.kernels.authoring.dtypes import bits
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

QUACK = PinnedPackage(distribution="quack-kernels", version="0.6.5", extra="quack")
TARGETS = ("sm_90+",)
_LEAST = 32  # bits
_THREADS, _WARP = 256, 32
_SHARED = 64 << 10  # columns: narrower rows are split among so few blocks that each is full
_CLUSTERS = {
    16: ((16 << 10, 1), (32 << 10, 2), (64 << 10, 4), (128 << 10, 8)),
    32: ((32 << 10, 1), (64 << 10, 2), (128 << 10, 4), (256 << 10, 8)),
}
_SMALL, _SMALL_SHARED, _REDUCTION = 12, 99 << 10, 1 << 10  # a capability; bytes of a block; of these, for sums
_WIDEST = 262_144  # of the largest vocabularies: cluster sizes are chosen up to this width


def refusal(config: Config, width: str, *, divisor: int = 0) -> str | None:
    """Why a config cannot be built, or None: the library is missing, or does not support the dtype or the width.

    Without a divisor, rows need only be read 4 bytes at a time, the least that an asynchronous copy takes.
    """
    reason = QUACK.obstacle() or configs.unsupported_dtype(config)
    if reason:
        return reason
    divisor = divisor or max(1, _LEAST // bits(str(config["dtype"])))
    size = configs.integer(config, width)
    if not 0 < size <= _WIDEST:
        return f"{width} is {size}: use a number from {divisor} to {_WIDEST}"
    below = size // divisor * divisor
    if size == below:
        return None
    near = f"{below} or {below + divisor}" if below else f"{divisor} or a multiple of it"
    return (
        f"{width} is {size}, which {divisor} does not divide: rows of {config['dtype']} are read {divisor} elements "
        f"at a time, or a multiple; use {near}"
    )


def cluster_refusal(config: Config, width: str, vector: int, target: Target) -> str | None:
    """Why a row cannot be split among the blocks of a cluster by the library's one-pass softmax, or None.

    Each warp first scales by the largest value that it has read. One without a column has read none, and the kernel
    then writes NaN into every row. Rows of this many columns go to clusters of blocks of 256 threads, and the last
    blocks may get few columns or none.
    """
    size, dtype = configs.integer(config, width), str(config["dtype"])
    if _fills(size, dtype, vector, target):
        return None
    steps = range(vector, _WIDEST, vector)
    near_ones = (w for near in steps for w in (size - near, size + near) if 0 < w <= _WIDEST)
    works = [w for w in near_ones if _fills(w, dtype, vector, target)]
    wider = "; or float32, which is shared otherwise" if _fills(size, "float32", vector, target) else ""
    return (
        f"{width} is {size}: in {dtype} the blocks that share a row would leave some of their warps without a column, "
        f"and quack {QUACK.version} then writes NaN; use {works[0]} or another number{wider}"
    )


def shared_memory_refusal(config: Config, width: str, vector: int, target: Target, tensors: int = 1) -> str | None:
    """Why the block's share of rows of this width does not fit into a GPU with little shared memory, or None."""
    if target.major != _SMALL:
        return None
    size, dtype = configs.integer(config, width), str(config["dtype"])
    held = _tile(size, dtype, vector, target) * bits(dtype) // 8 * tensors
    if size <= _SHARED or held + _REDUCTION <= _SMALL_SHARED:
        return None
    return (
        f"{width} is {size}: a block holds {held} bytes of its rows, and one of {target} has {_SMALL_SHARED}; "
        "use fewer columns or a narrower dtype, or build it for another target"
    )


def _fills(width: int, dtype: str, vector: int, target: Target) -> bool:
    if width <= _SHARED:
        return True
    tile = _tile(width, dtype, vector, target)
    return width - (_blocks(width, dtype, target) - 1) * tile > vector * (_THREADS - _WARP)


def _tile(width: int, dtype: str, vector: int, target: Target) -> int:
    """The columns of a block, where several share a row."""
    return vector * -(-(width // vector) // (_THREADS * _blocks(width, dtype, target))) * _THREADS


def _blocks(width: int, dtype: str, target: Target) -> int:
    """How many blocks share a row: on GPUs with little shared memory float32 is cut as 16 bits are, and 8 is most."""
    small = target.major == _SMALL
    clusters = _CLUSTERS[16 if small else bits(dtype)]
    return next((n for limit, n in clusters if width <= limit), 8 if small else 16)


def vector(dtype: str) -> int:
    """How many elements 16 bytes hold."""
    return 128 // bits(dtype)


def step(width: int, *dtypes: str) -> int:
    """What must divide the row strides of matrices of this width: as much of 16 bytes as the width allows.

    >>> step(4096, "bfloat16"), step(4096, "bfloat16", "float32"), step(33, "bfloat16")
    (8, 4, 1)
    """
    return gcd(width, *map(vector, dtypes))
