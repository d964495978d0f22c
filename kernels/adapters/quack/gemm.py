"""quack's GEMM as one more way to compute ``gemm``: tiles in turn on an SM, in steps of 16, and sides exchanged.

Its persistent blocks take one tile after another, by its number, and none waits for another: the number of clusters
that run at once is baked in, and with another GPU's they are only slower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

MODULE = "quack.gemm_default_epi"  # for the ``imports`` of a declaration
SWIZZLE = 8
_CLASSES = {
    "sm_90a": "GemmDefaultSm90", "sm_100a": "GemmDefaultSm100", "sm_103a": "GemmDefaultSm100",
    "sm_120a": "GemmDefaultSm120", "sm_121a": "GemmDefaultSm120",
}  # fmt: skip
_FLOATS = ("bfloat16", "float16", "float8_e4m3fn", "float8_e5m2")
_STORED = ("bfloat16", "float16", "float32")
_CLUSTERS = ((1, 1), (2, 1), (1, 2))
_PAIRED = (128, 256)  # of a tile's first side, that two blocks of sm_100a share
# First sides of tiles on sm_90a, and how long the second may be; its multiples are of 16, or 32 for 192.
_COOPERATIVE = {64: 256, 128: 256, 192: 256, 256: 208}
_PINGPONG = {64: 256, 128: 208, 192: 128}

_SM120 = {64: (128,), 128: (64, 128, 160, 192)}  # tiles for 99 KB of shared memory, those that quack tries


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """The keys of a config that quack's GEMM reads. ``tile`` and ``cluster`` are (m, n) of the result."""

    tile: Sequence[int]
    cluster: Sequence[int]
    two_cta: bool
    scheduler: str
    pingpong: bool
    swap: bool
    swizzle: int

    @classmethod
    def of(cls, config: Config) -> Design:
        """The design of a full config, which holds more keys."""
        values: dict[str, Any] = {name: config[name] for name in cls.__slots__}
        return cls(**values)

    @property
    def sides(self) -> tuple[int, int]:
        """The tile as quack counts it: its first side is that of the weights where the sides are exchanged.

        >>> Design(tile=(32, 128), cluster=(1, 2), two_cta=False, scheduler="static", pingpong=True, swap=True,
        ...        swizzle=0).sides
        (128, 32)
        """
        return self._ordered(self.tile)

    @property
    def blocks(self) -> tuple[int, int]:
        """The cluster, along the same sides."""
        return self._ordered(self.cluster)

    @property
    def dynamic(self) -> bool:
        """Whether each cluster requests its next tile from the GPU."""
        return self.scheduler == "dynamic"

    @property
    def paired(self) -> bool:
        """Whether two blocks of sm_100a multiply one tile."""
        return self.blocks[0] % 2 == 0 and self.sides[0] in _PAIRED

    def _ordered(self, pair: Sequence[int]) -> tuple[int, int]:
        m, n = pair
        return (n, m) if self.swap else (m, n)


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
    return {9: _hopper, 10: _blackwell, 12: _sm120}[target.major](Design.of(config))


def _hopper(design: Design) -> str | None:
    first, second = design.sides
    if design.two_cta or design.dynamic:
        return "quack's gemm on sm_90a has neither two_cta nor a dynamic scheduler: leave both out"
    if design.blocks not in _CLUSTERS:
        return f"quack's gemm takes no cluster {_shown(design.blocks)}: use {_either(_CLUSTERS)}"
    longest = _PINGPONG if design.pingpong else _COOPERATIVE
    step = 32 if first == 192 and not design.pingpong else 16
    if first not in longest:
        return f"quack's gemm has no tile with {first} as its {_side(design, 0)}: use {_either(longest)}"
    if second % step or not 16 <= second <= longest[first]:
        return (
            f"quack's gemm has no tile with {second} as its {_side(design, 1)}: use a multiple of {step} "
            f"up to {longest[first]}"
        )
    return None


def _blackwell(design: Design) -> str | None:
    first, second = design.sides
    if design.pingpong:
        return "quack's gemm has pingpong on sm_90a only: leave it out"
    if first not in _PAIRED or second % 16 or not 16 <= second <= 256:
        return (
            f"quack's gemm has no tile {first} by {second}: use {_either(_PAIRED)} as its {_side(design, 0)}, and a "
            "multiple of 16 up to 256 as the other side"
        )
    if first == 256 and not design.paired:
        return f"256 as {_side(design, 0)} of a tile takes two blocks: make that side of the cluster 2"
    if design.blocks not in (*_CLUSTERS, (2, 2)):
        return f"quack's gemm takes no cluster {_shown(design.blocks)}: use {_either((*_CLUSTERS, (2, 2)))}"
    if design.two_cta != design.paired:
        return f"with this tile and cluster two_cta is {str(design.paired).lower()}: write that"
    return None


def _sm120(design: Design) -> str | None:
    first, second = design.sides
    if design.two_cta or design.blocks != (1, 1):
        return "quack's gemm on sm_120a has neither clusters nor two_cta: use cluster [1, 1], and leave two_cta out"
    if design.pingpong:  # its phases pass 1 in PipelineStateWAdvance.advance_iters of quack 0.6.5
        return "quack's gemm with pingpong waits for mbarrier parities that PTX does not have on sm_120a: leave it out"
    if second not in _SM120.get(first, ()):
        return f"quack's gemm on sm_120a has no tile {first} by {second}: use 128 by 64, 128, 160 or 192, or 64 by 128"
    return None


def _side(design: Design, which: int) -> str:
    return "mn"[which ^ design.swap]


def _shown(pair: tuple[int, int]) -> str:
    return f"[{pair[0]}, {pair[1]}]"


def _either(values: Any) -> str:
    return ", ".join(_shown(v) if isinstance(v, tuple) else str(v) for v in values)


def compile_gemm(design: Design, dtype: str, target: Target, tensors: Mapping[str, Any]) -> Any:
    """Compile for tensors that stand for the caller's ``a``, ``b`` and ``out``."""
    import cutlass.utils
    from cutlass import Float32

    from precast.kernels.adapters.quack import gemm_device

    special: dict[str, bool] = {}
    if target.major != 9:
        special["use_clc_persistence"] = design.dynamic
    if target.major != 10:
        special |= {"pingpong": design.pingpong, "is_persistent": True}
    if target.major == 9 and bits(dtype) == 8:  # leave sums in the tensor core, as CUTLASS's operators and torch do
        special["fp8_fast_accum"] = True
    gemm_class = getattr(QUACK.module(MODULE), _CLASSES[str(target)])
    library_gemm = gemm_class(Float32, to_cutlass(dtype), design.sides, (*design.blocks, 1), **special)
    clusters = 1
    if not design.dynamic:  # else each cluster requests its next tile from the GPU, and the grid covers all tiles
        clusters = cutlass.utils.HardwareInfo().get_max_active_clusters(design.blocks[0] * design.blocks[1])
    swizzle = design.swizzle or SWIZZLE
    product = gemm_device.Product(library_gemm, clusters=clusters, swizzle=swizzle, swap=design.swap)
    return product.compile(tensors["a"], tensors["b"], tensors["out"])
