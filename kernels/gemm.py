"""``gemm``: one product of matrices from three libraries, among whose kernels the loader chooses.

- ``operators``: CUTLASS's operators, which do every dtype, layout and epilogue that the op has.
- ``quack``: quack's GEMM, with more shapes of tiles, two of them in turn on an SM, and sides exchanged.
- ``precast``: this project's, for few rows, and for tiles that do not fill the GPU: blocks of a cluster share k.

All take the same arguments. None of their blocks waits for one that may not run: a GPU's numbers, which the persistent
ones have baked in, only cost speed where they are wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.adapters.operators import cases, ops
from precast.kernels.adapters.operators.compile import compile_operator
from precast.kernels.adapters.operators.config import Design, Operands, pair
from precast.kernels.adapters.quack import gemm as quack_gemm
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.authoring.tile import Tile
from precast.kernels.own.matrix import gemm_sm90a
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_ALIGN = 16
# The keys that only some libraries read, with what stands for "not set".
_UNSET: Mapping[str, object] = {
    "two_cta": False, "scheduler": "static", "fallback_cluster": None, "operator": "",
    "pingpong": False, "swap": False, "swizzle": 0, "split": 1, "residents": 1,
}  # fmt: skip
_READ: Mapping[str, tuple[str, ...]] = {
    "operators": ("two_cta", "scheduler", "fallback_cluster", "operator"),
    "quack": ("two_cta", "scheduler", "pingpong", "swap", "swizzle"),
    "precast": ("pingpong", "swap", "split", "residents"),
}
_REFUSALS: Mapping[str, Callable[[Config, Target], str | None]] = {
    "operators": ops.gemm_supports,
    "quack": quack_gemm.refusal,
    "precast": gemm_sm90a.refusal,
}


def supports(config: Config, target: Target) -> str | None:
    """Why a library does not do this on the target, or None.

    >>> config = {"library": "precast", "tile": (16, 64), **_UNSET, "swizzle": 8}
    >>> supports(config, Target.parse("sm_90a"))
    'library precast does not read swizzle: leave it out, or use library quack'
    """
    library = str(config["library"])
    for name, unset in _UNSET.items():
        if config[name] != unset and name not in _READ[library]:
            others = " or ".join(other for other, names in _READ.items() if name in names)
            return f"library {library} does not read {name}: leave it out, or use library {others}"
    tile, cluster = configs.integers(config, "tile"), configs.integers(config, "cluster")
    if len(tile) != 2 and library != "precast":
        return f"tile has {len(tile)} sides: write its (m, n)"
    if len(cluster) != 2:
        return f"cluster has {len(cluster)} sides: write its (m, n)"
    return _REFUSALS[library](config, target)


def _plane(config: Config) -> Config:
    """The config with the (m, n) of its tile alone."""
    tile: Any = config["tile"]
    return {**config, "tile": tuple(tile)[:2]}


def problems(config: Config) -> Sequence[Mapping[str, int]]:
    """Sizes around every boundary of a tile, and a large square one last."""
    return cases.problems(_plane(config))


def tile_of(config: Config, target: Target) -> Tile | None:
    """What a cluster of blocks works on; None for products of batches, whose cases name other axes.

    >>> shared = {"library": "precast", "tile": (16, 64, 128), "cluster": (1, 2), "split": 2, "residents": 2}
    >>> tile = tile_of({**_UNSET, **shared}, Target.parse("sm_90a"))
    >>> tile.sizes, tile.blocks, tile.per_sm
    ({'m': 16, 'n': 128}, 4, 2)
    """
    if config.get("batched"):
        return None
    tile, cluster = configs.integers(config, "tile"), configs.integers(config, "cluster")
    sizes = {"m": tile[0] * cluster[0], "n": tile[1] * cluster[1]}
    if config["two_cta"]:
        sizes["n" if config["swap"] else "m"] //= 2  # a tile is over both blocks
    blocks = cluster[0] * cluster[1] * configs.integer(config, "split")
    return Tile(sizes=sizes, blocks=blocks, per_sm=configs.integer(config, "residents"))


@ops.gemm_kernel(imports=("cutlass.operators",), tile=tile_of)
def gemm(
    dtype: DType,
    out_dtype: DType,
    accumulator: DType = "float32",
    a_major: Literal["k", "m"] = "k",
    b_major: Literal["k", "n"] = "k",
    out_major: Literal["n", "m"] = "n",
    batched: bool = False,
    epilogue: str = "",
    weights: bool = False,
    library: Tuned[Literal["operators", "quack", "precast"]] = "operators",
    tile: Tuned[Sequence[int]] = (128, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
    two_cta: Tuned[bool] = False,
    scheduler: Tuned[Literal["static", "dynamic"]] = "static",
    fallback_cluster: Tuned[Sequence[int] | None] = None,
    operator: Tuned[str] = "",
    pingpong: Tuned[bool] = False,
    swap: Tuned[bool] = False,
    swizzle: Tuned[int] = 0,
    split: Tuned[int] = 1,
    residents: Tuned[int] = 1,
) -> Any:
    """``gemm(a, b, out)``: the product of ``a`` (m, k) and ``b`` (k, n), of any size, stored in ``out`` (m, n).

    ``a_major``, ``b_major`` and ``out_major`` name the contiguous dimension of each. The defaults are a linear layer's:
    ``gemm(x, weight.T, y)`` with ``weight`` as torch keeps it, (n, k). The contiguous dimension, every stride and
    every address are multiples of 16 bytes; rows may be further apart than they are long. ``batched`` puts a
    dimension before the others of all three.

    ``epilogue`` is computed on the product ``accum`` before it is stored: an expression with + - * /, relu, sigmoid,
    tanh, exp, numbers, and what is passed beside ``accum``: ``bias`` (n), ``C`` (m, n), ``alpha`` and ``beta``
    (floats). They are passed between ``b`` and ``out``, in this order: with ``"relu(accum + bias)"`` the call is
    ``gemm(a, b, bias, out)``. The product is rounded to ``out_dtype`` first, and the rest computed in that.

    ``weights`` is a promise: ``b`` was written long before, as weights are, and not by the kernel that was launched
    before this one. What can then be loaded while that one still runs, is; other kernels are as without it.

    ``library`` says whose kernel it is. ``tile`` and ``cluster`` are (m, n) of the result. ``swap``, of quack's and
    precast's, puts the weights on the side of the tensor core that takes 64 rows, and their ``pingpong`` has two groups
    of warps take tiles in turn. With quack's, ``swizzle`` is how many tiles stand side by side in the order in which
    they are taken. With precast's, ``tile`` may have a k as well, ``split`` blocks of a cluster share k, and
    ``residents`` blocks fit on an SM.
    """
    operands = Operands(dtype, out_dtype, accumulator, a_major, b_major, out_major, batched, epilogue)
    if library == "operators":
        fallback = pair(fallback_cluster) if fallback_cluster else None
        return compile_operator(operands, Design(pair(tile), pair(cluster), two_cta, scheduler, fallback, operator))
    tensors = _tensors(operands)
    if library == "quack":
        design = quack_gemm.Design(
            tile=tile,
            cluster=cluster,
            two_cta=two_cta,
            scheduler=scheduler,
            pingpong=pingpong,
            swap=swap,
            swizzle=swizzle,
        )
        return quack_gemm.compile_gemm(design, dtype, Target.parse(os.environ["CUTE_DSL_ARCH"]), tensors)
    blocks = gemm_sm90a.blocking(dtype, tile, cluster, swap=swap, split=split, residents=residents, pingpong=pingpong)
    return gemm_sm90a.compile_gemm(blocks, tensors, weights=weights)


def _tensors(operands: Operands) -> dict[str, Any]:
    """Tensors that stand for the caller's, as the operators are compiled with: a dimension is one symbol wherever it
    appears, so that a call with shapes that do not fit together is refused, and strides are free."""
    import cutlass.cute as cute

    sizes = {d: cute.SymInt(32, divisibility=operands.granularity(d), symbol=d) for d in "mnk"}

    def tensor(dtype: str, dimensions: str, major: str) -> Any:
        step = 128 // bits(dtype)
        strides = tuple(1 if d == major else cute.SymInt(64, divisibility=step) for d in dimensions)
        shape = tuple(sizes[d] for d in dimensions)
        return cute.runtime.make_fake_tensor(to_cutlass(dtype), shape, strides, assumed_align=_ALIGN)

    return {
        "a": tensor(operands.dtype, "mk", operands.a_major),
        "b": tensor(operands.dtype, "kn", operands.b_major),
        "out": tensor(operands.out_dtype, "mn", operands.out_major),
    }
