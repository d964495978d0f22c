"""Matrix products with an activation, as quack's GEMM computes them: the epilogues, and what launches them.

quack's own host functions take tuples of arguments. These take tensors alone.
"""

from functools import partial
from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from quack import activation as activations
from quack.epilogue.frontend import gemm_epilogue
from quack.epilogue.math import unpack
from quack.epilogue.ops import RowVecLoad
from quack.rounding import RoundingMode
from quack.tile_scheduler import TileSchedulerOptions

_ALIGN = 16
_EIGHT = 8  # elements of 16 bits in 16 bytes


class ActivatedGemm:
    """One product and its epilogue. ``b`` is (k, n), as callers have it."""

    def __init__(self, gemm: Any, clusters: int, *, gated: bool) -> None:
        self.gemm = gemm
        self.clusters = clusters
        self.gated = gated

    @cute.jit
    def plain(self, a: cute.Tensor, b: cute.Tensor, out: cute.Tensor, stream: cuda.CUstream) -> None:
        """``out = act(a @ b)``; with a gate, ``out`` has half of the columns of ``b``."""
        if cutlass.const_expr(self.gated):
            self.launch(a, b, None, self.gemm.EpilogueArguments(out=out), stream)
        else:
            self.launch(a, b, out, self.gemm.EpilogueArguments(), stream)

    @cute.jit
    def biased(
        self, a: cute.Tensor, b: cute.Tensor, bias: cute.Tensor, out: cute.Tensor, stream: cuda.CUstream
    ) -> None:
        """``out = act(a @ b + bias)``."""
        self.launch(a, b, out, self.gemm.EpilogueArguments(bias=bias), stream)

    def launch(self, a: Any, b: Any, stored: Any, arguments: Any, stream: Any) -> None:
        """Launch as many clusters as run at once; they take the tiles in turn."""
        options = TileSchedulerOptions(max_active_clusters=cutlass.Int32(self.clusters))
        self.gemm(a, b, stored, None, arguments, options, None, stream)


def compile_act(activation: str, bias: bool, **shared: Any) -> Any:
    """Compile ``(a, b, out)``, or ``(a, b, bias, out)``, for one of quack's activations."""
    act = activations.act_fn_map[activation]

    def biased(acc: Any, bias: Any) -> Any:
        return {"D": act(acc + bias)}

    def plain(acc: Any) -> Any:
        return {"D": act(acc)}

    if bias:
        return _compile(gemm_epilogue(ops={"bias": RowVecLoad("bias")})(biased), gated=False, bias=True, **shared)
    return _compile(gemm_epilogue()(plain), gated=False, **shared)


def compile_gated(activation: str, halves: bool, **shared: Any) -> Any:
    """Compile ``(a, b, out)`` for one of quack's gates; with ``halves``, all gates come before all they multiply."""
    gate_of = activations.gate_fn_map[activation]

    def gated(acc: Any) -> Any:
        gate, up = unpack(acc)
        return {"out": gate_of(gate, up)}

    return _compile(gemm_epilogue(outputs=("out",), mode="acc_pair")(gated), gated=True, halves=halves, **shared)


def _compile(
    epilogue: Any,
    *,
    dtype: Any,
    major: int,
    tile: tuple[int, int],
    cluster: tuple[int, int],
    pingpong: bool,
    gated: bool,
    bias: bool = False,
    halves: bool = False,
) -> Any:
    operands = (("bias", "row"),) if bias else ()
    kind = epilogue._mint(operands, major, gated, False, (), RoundingMode.RN, (), False)
    kind = partial(kind, pingpong=pingpong) if major == 9 else partial(kind, use_clc_persistence=False)
    gemm = kind(cutlass.Float32, dtype, tile, (*cluster, 1), concat_layout=("B",) if halves else None)
    gemm.b_transposed = True
    clusters = cutlass.utils.HardwareInfo().get_max_active_clusters(cluster[0] * cluster[1])
    host = ActivatedGemm(gemm, clusters, gated=gated)
    m, k = cute.SymInt(32, symbol="m"), cute.SymInt(32, divisibility=_EIGHT, symbol="k")
    n = cute.SymInt(32, divisibility=2 * _EIGHT if gated else _EIGHT, symbol="n")
    stored = cute.SymInt(32, divisibility=_EIGHT, symbol="half") if gated else n
    a, b, out = _tensor(dtype, (m, k), 1), _tensor(dtype, (k, n), 0), _tensor(dtype, (m, stored), 1)
    stream = cute.runtime.make_fake_stream(use_tvm_ffi_env_stream=True)
    if bias:
        row = cute.runtime.make_fake_tensor(dtype, (n,), (1,), assumed_align=_ALIGN)
        return cute.compile(host.biased, a, b, row, out, stream, options="--enable-tvm-ffi")
    return cute.compile(host.plain, a, b, out, stream, options="--enable-tvm-ffi")


def _tensor(dtype: Any, shape: tuple[Any, Any], contiguous: int) -> Any:
    strides = tuple(1 if i == contiguous else cute.SymInt(64, divisibility=_EIGHT) for i in range(2))
    return cute.runtime.make_fake_tensor(dtype, shape, strides, assumed_align=_ALIGN)
