"""quack's GEMM as one more way to compute ``gemm``: tiles in turn on an SM, in steps of 16, and sides exchanged.

Its persistent blocks take one tile after another, by its number, and none waits for another: the number of clusters
that run at once is baked in, and with another GPU's they are only slower.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

MODULE = "quack.gemm_default_epi"  # for the ``imports`` of a declaration
SWIZZLE = 8
_CLASSES = {"sm_90a": "GemmDefaultSm90", "sm_100a": "GemmDefaultSm100", "sm_103a": "GemmDefaultSm100"}
_FLOATS = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
_STORED = ("bfloat16", "float16", "float32")
_CLUSTERS = ((1, 1), (2, 1), (1, 2))
_PAIRED = (128, 256)  # of a tile's first side, that two blocks of sm_100a share
# First sides of tiles on sm_90a, and how long the second may be; its multiples are of 16, or 32 for 192.
_COOPERATIVE = {64: 256, 128: 256, 192: 256, 256: 208}
_PINGPONG = {64: 256, 128: 208, 192: 128}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuackTile:
    """The tile as quack counts it: its first side is that of weights where the sides are exchanged."""

    tile: tuple[int, int]
    cluster: tuple[int, int]
    pingpong: bool
    swap: bool
    swizzle: int
    dynamic: bool

    @classmethod
    def of(cls, config: Config) -> QuackTile:
        """The tile of a full config, whose tile and cluster are (m, n) of the result.

        >>> one = {"tile": (32, 128), "cluster": (1, 2), "pingpong": True, "swap": True, "swizzle": 0}
        >>> QuackTile.of({**one, "scheduler": "static"}).tile
        (128, 32)
        """
        step = -1 if config["swap"] else 1
        tile, cluster = configs.integers(config, "tile")[::step], configs.integers(config, "cluster")[::step]
        return cls(
            tile=(tile[0], tile[1]),
            cluster=(cluster[0], cluster[1]),
            pingpong=bool(config["pingpong"]),
            swap=bool(config["swap"]),
            swizzle=configs.integer(config, "swizzle") or SWIZZLE,
            dynamic=config["scheduler"] == "dynamic",
        )

    @property
    def paired(self) -> bool:
        """Whether two blocks of sm_100a multiply one tile."""
        return self.cluster[0] % 2 == 0 and self.tile[0] in _PAIRED


def refusal(config: Config, target: Target) -> str | None:
    """Why quack's GEMM does not do this, ending in what would work; None where it does."""
    reason = QUACK.obstacle()
    if reason is not None:
        return reason
    if str(target) not in _CLASSES:
        return f"quack's gemm is for {', '.join(_CLASSES)}, not {target}: use library operators"
    if config["dtype"] not in _FLOATS or config["out_dtype"] not in _STORED:
        return (
            f"quack's gemm does not multiply {config['dtype']} into {config['out_dtype']}: use dtype "
            f"{', '.join(_FLOATS)} and out_dtype {', '.join(_STORED)}, or library operators"
        )
    plain = {"accumulator": "float32", "batched": False, "epilogue": "", "out_major": "n"}
    if bits(str(config["dtype"])) == 8:
        plain |= {"a_major": "k", "b_major": "k"}
    wrong = next((name for name, value in plain.items() if config[name] != value), None)
    if wrong:
        return f"quack's gemm is taken for {wrong} {plain[wrong]!r}, not {config[wrong]!r}: use library operators"
    shape = QuackTile.of(config)
    return (_hopper if str(target) == "sm_90a" else _blackwell)(shape, bool(config["two_cta"]))


def _hopper(shape: QuackTile, two_cta: bool) -> str | None:
    first, second = shape.tile
    if two_cta or shape.dynamic:
        return "quack's gemm on sm_90a has neither two_cta nor a dynamic scheduler: leave both out"
    if shape.cluster not in _CLUSTERS:
        return f"quack's gemm takes no cluster {_shown(shape.cluster)}: use {_either(_CLUSTERS)}"
    longest = _PINGPONG if shape.pingpong else _COOPERATIVE
    step = 32 if first == 192 and not shape.pingpong else 16
    if first not in longest:
        return f"quack's gemm has no tile with {first} as its {_side(shape, 0)}: use {_either(longest)}"
    if second % step or not 16 <= second <= longest[first]:
        return (
            f"quack's gemm has no tile with {second} as its {_side(shape, 1)}: use a multiple of {step} "
            f"up to {longest[first]}"
        )
    return None


def _blackwell(shape: QuackTile, two_cta: bool) -> str | None:
    first, second = shape.tile
    if shape.pingpong:
        return "quack's gemm has pingpong on sm_90a only: leave it out"
    if first not in _PAIRED or second % 16 or not 16 <= second <= 256:
        return (
            f"quack's gemm has no tile {first} by {second}: use {_either(_PAIRED)} as its {_side(shape, 0)}, and a "
            "multiple of 16 up to 256 as the other side"
        )
    if first == 256 and not shape.paired:
        return f"256 as {_side(shape, 0)} of a tile takes two blocks: make that side of the cluster 2"
    if shape.cluster not in (*_CLUSTERS, (2, 2)):
        return f"quack's gemm takes no cluster {_shown(shape.cluster)}: use {_either((*_CLUSTERS, (2, 2)))}"
    if two_cta != shape.paired:
        return f"with this tile and cluster two_cta is {str(shape.paired).lower()}: write that"
    return None


def _side(shape: QuackTile, which: int) -> str:
    return "mn"[which ^ shape.swap]


def _shown(pair: tuple[int, int]) -> str:
    return f"[{pair[0]}, {pair[1]}]"


def _either(values: Any) -> str:
    return ", ".join(_shown(v) if isinstance(v, tuple) else str(v) for v in values)


def compile_gemm(config: Config, target: Target, tensors: Mapping[str, Any]) -> Any:
    """Compile for tensors that stand for the caller's ``a``, ``b`` and ``out``."""
    import cutlass.utils
    from cutlass import Float8E4M3FN, Float8E5M2, Float32

    from precast.kernels.adapters.quack import gemm_device

    shape, dtype = QuackTile.of(config), to_cutlass(str(config["dtype"]))
    # Sums of eight-bit products are left in the tensor core, as CUTLASS's operators and torch leave them.
    fast = {"fp8_fast_accum": True} if dtype in (Float8E4M3FN, Float8E5M2) else {}
    if str(target) == "sm_90a":
        special: dict[str, Any] = {"pingpong": shape.pingpong, "is_persistent": True, **fast}
    else:
        special = {"use_clc_persistence": shape.dynamic}
    made = getattr(QUACK.module(MODULE), _CLASSES[str(target)])(
        Float32, dtype, shape.tile, (*shape.cluster, 1), **special
    )
    blocks, clusters = shape.cluster[0] * shape.cluster[1], 1
    if not shape.dynamic:  # else each cluster asks the GPU for its next tile, and the grid is that of all tiles
        clusters = cutlass.utils.HardwareInfo().get_max_active_clusters(blocks)
    product = gemm_device.Product(made, clusters=clusters, swizzle=shape.swizzle, swap=shape.swap)
    return product.compile(tensors["a"], tensors["b"], tensors["out"])
