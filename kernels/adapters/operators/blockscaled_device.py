"""Block-scaled operators that take tensors. The library's own take addresses and sizes, and check neither."""

from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute

from precast.kernels.authoring.dtypes import bits, to_cutlass


@cute.jit
def blockscaled(
    implementation: cutlass.Constexpr,
    dtype: cutlass.Constexpr,
    layouts: cutlass.Constexpr,
    clusters: cutlass.Constexpr,
    epilogue: cutlass.Constexpr,
    a: cute.Tensor,
    b: cute.Tensor,
    a_scale: cute.Tensor,
    b_scale: cute.Tensor,
    out: cute.Tensor,
    stream: cuda.CUstream,
) -> None:
    packed = a.element_type.width // dtype.width
    m, k, n = a.shape[0], a.shape[1] * packed, b.shape[0]
    implementation(
        cute.recast_ptr(a.iterator, dtype=dtype),
        cute.recast_ptr(b.iterator, dtype=dtype),
        a_scale.iterator,
        b_scale.iterator,
        out.iterator,
        layouts,
        (m, n, k, cutlass.Int32(1)),
        clusters,
        stream,
        epilogue,
    )


def take_tensors(operator: Any, format_: tuple[str, str, int], out_major: str) -> None:
    """Let an operator compile for tensors: each dimension one symbol, rows without gaps, as the operator reads them."""
    dtype, scale, _ = (*map(to_cutlass, format_[:2]), format_[2])
    stored = cutlass.Uint8 if dtype.width < 8 else dtype
    packed = stored.width // dtype.width
    out_dtype = operator.metadata.operands.out.dtype
    wide = 128 // bits(out_dtype.__name__.lower())
    m = cute.SymInt(32, divisibility=wide if out_major == "m" else 1, symbol="m")
    n = cute.SymInt(32, divisibility=wide if out_major == "n" else 1, symbol="n")
    k = cute.SymInt(32, divisibility=operator.metadata.operands.A.divisibility // packed, symbol="k")

    def tensor(element: Any, shape: tuple[Any, ...], strides: tuple[Any, ...], align: int) -> Any:
        return cute.runtime.make_fake_tensor(element, shape, strides, assumed_align=align)

    tensors = (
        tensor(stored, (m, k), (k, 1), 16),
        tensor(stored, (n, k), (k, 1), 16),
        tensor(scale, (cute.SymInt(32, divisibility=512, symbol="a_scales"),), (1,), 32),
        tensor(scale, (cute.SymInt(32, divisibility=512, symbol="b_scales"),), (1,), 32),
        tensor(out_dtype, (m, n), (n, 1) if out_major == "n" else (1, m), 16),
    )
    compile_ = operator.cute_compile

    def with_tensors(implementation: Any, *args: Any, target_sm: Any) -> Any:
        layouts, _, clusters, stream, epilogue = args[5:]  # after the five addresses; the sizes come from the tensors
        return compile_(
            blockscaled, implementation, dtype, layouts, clusters, epilogue, *tensors, stream, target_sm=target_sm
        )

    operator.cute_compile = with_tensors
