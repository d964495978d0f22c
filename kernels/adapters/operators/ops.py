"""CUTLASS's operators, from nvidia-cutlass-operators: ``gemm_blockscaled``, ``gemm_grouped``, their part of ``gemm``.

The config is the operators' own metadata: what is computed (dtypes, which dimension is contiguous, the epilogue) and,
for the loader to choose among, how (tile, cluster, scheduler). The operators say what they support; a config that none
of them has is refused with a reason before anything is compiled. Any other operator class that is registered
with its provider is a kernel without change: ``compile: "my_module:MyOperator"``.

The persistent ones bake in how many clusters run at once, and launch that many at most. Each takes one tile after
another, by its number or by a counter, and none waits for another: with another GPU's number they are only slower.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from precast.kernels.adapters.operators import cases
from precast.kernels.adapters.operators.arguments import Grouped, Question, Scaled
from precast.kernels.adapters.operators.catalogue import refusal
from precast.kernels.adapters.operators.compile import compile_operator
from precast.kernels.adapters.operators.config import Design, Operands, pair
from precast.kernels.adapters.operators.epilogue import Epilogue
from precast.kernels.authoring.declare import GRID, Declaration, attach, declaration_of, kernel
from precast.kernels.authoring.errors import DeclarationError
from precast.kernels.authoring.hints import DType, Tuned
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_IMPORTS = ("cutlass.operators",)


def gemm_supports(config: Config, target: Target) -> str | None:
    """Why no operator does this on the target, or None."""
    return refusal(Operands.of(config), Design.of(config), target)


def gemm_names(config: Config) -> Mapping[str, str]:
    """Names for the arguments, by those that the operators' own functions have.

    >>> gemm_names({"epilogue": "relu(accum + bias)"})["_vararg_4"]
    'bias'
    """
    epilogue = str(config.get("epilogue", ""))
    behind = (*(Epilogue.parse(epilogue).inputs if epilogue else ()), "out")
    return {
        "c": "out",
        **{f"{name}_api": to for name, to in (("a", "a"), ("b", "b"), ("c", "out"))},
        **{f"_vararg_{4 + i}": name for i, name in enumerate(behind)},
    }


gemm_kernel = functools.partial(
    kernel,
    op="gemm",
    targets=["sm_80+"],
    arguments=gemm_names,
    inputs=cases.inputs,
    outputs=["out"],
    reference=cases.reference,
    tolerance=cases.tolerance,
    special_values=["zero", "denormal"],  # an epilogue may drop NaN, as relu does
    cost=cases.cost,
    peer=cases.peer,
    speed_only=GRID,
)
"""``kernel`` for a function that compiles ``gemm``, with what all libraries' kernels of it have in common."""


@gemm_kernel(imports=_IMPORTS, supports=gemm_supports, problems=cases.problems)
def gemm(
    dtype: DType,
    out_dtype: DType,
    accumulator: DType = "float32",
    a_major: Literal["k", "m"] = "k",
    b_major: Literal["k", "n"] = "k",
    out_major: Literal["n", "m"] = "n",
    batched: bool = False,
    epilogue: str = "",
    tile: Tuned[Sequence[int]] = (128, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
    two_cta: Tuned[bool] = False,
    scheduler: Tuned[Literal["static", "dynamic"]] = "static",
    fallback_cluster: Tuned[Sequence[int] | None] = None,
    operator: Tuned[str] = "",
) -> Any:
    """``gemm(a, b, out)`` of the operators alone: ``precast.kernels.gemm`` has all libraries and describes the keys."""
    operands = Operands(dtype, out_dtype, accumulator, a_major, b_major, out_major, batched, epilogue)
    fallback = pair(fallback_cluster) if fallback_cluster else None
    return compile_operator(operands, Design(pair(tile), pair(cluster), two_cta, scheduler, fallback, operator))


def blockscaled_supports(config: Config, target: Target) -> str | None:
    """Why no operator does this on the target, or None."""
    return refusal(Scaled.of(config), Design.of({**config, "two_cta": True}), target)


@kernel(
    op="gemm_blockscaled",
    imports=_IMPORTS,
    targets=["sm_100a", "sm_100f", "sm_103a", "sm_103f"],
    supports=blockscaled_supports,
    problems=cases.scaled_problems,
    inputs=cases.scaled_inputs,
    outputs=["out"],
    reference=cases.scaled_reference,
    tolerance=cases.tolerance,
    special_values=[],  # values and scales are of types without them
    cost=cases.scaled_cost,
    speed_only=GRID,
)
def gemm_blockscaled(
    format: Literal["nvfp4", "mxfp4", "mxfp8"],
    out_dtype: DType,
    out_major: Literal["n", "m"] = "n",
    tile: Tuned[Sequence[int]] = (256, 128),
    cluster: Tuned[Sequence[int]] = (2, 1),
    operator: Tuned[str] = "",
) -> Any:
    """``gemm_blockscaled(a, b, a_scale, b_scale, out)``: ``out`` (m, n) is ``a`` (m, k) times ``b`` (n, k) transposed,
    each value times its block's scale.

    ``nvfp4`` has a float8_e4m3fn scale for 16 values along k, ``mxfp4`` and ``mxfp8`` a float8_e8m0fnu one for 32.
    Four-bit values come packed, as uint8 of (rows, k / 2), the first of two in the low bits; eight-bit ones are
    float8_e4m3fn. Rows must be contiguous. Scales are flat, in the order tensor cores read: tiles of 128 rows
    by 4 blocks, 512 scales each, along k first; the last tile is whole in memory, too. The number of
    scales is not checked: the caller must pass as many as that takes.
    """
    operands = Scaled(format=format, out_dtype=out_dtype, out_major=out_major)
    return compile_operator(operands, Design(pair(tile), pair(cluster), two_cta=True, operator=operator))


def grouped_supports(config: Config, target: Target) -> str | None:
    """Why no operator does this on the target, or None."""
    return refusal(Grouped.of(config), Design.of(config), target)


@kernel(
    op="gemm_grouped",
    imports=_IMPORTS,
    targets=["sm_100a", "sm_100f", "sm_103a", "sm_103f"],
    supports=grouped_supports,
    arguments={"c": "out", "offset_mapping": "offsets"},
    problems=cases.grouped_problems,
    inputs=cases.grouped_inputs,
    outputs=["out"],
    reference=cases.grouped_reference,
    tolerance=cases.tolerance,
    special_values=["zero", "denormal"],
    cost=cases.grouped_cost,
    speed_only=GRID,
)
def gemm_grouped(
    dtype: DType,
    out_dtype: DType,
    tile: Tuned[Sequence[int]] = (128, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
    two_cta: Tuned[bool] = False,
    operator: Tuned[str] = "",
) -> Any:
    """``gemm_grouped(a, b, out, offsets)``: the rows of ``a`` (m, k) in groups, each times its own ``b[group]``.

    ``b`` is (groups, k, n) with k contiguous: ``weights.transpose(1, 2)`` of (groups, n, k), as mixtures of experts
    keep them. ``offsets`` is int32 of (groups): where in m each group ends. The contiguous dimensions, strides and
    addresses are multiples of 16 bytes.
    """
    design = Design(pair(tile), pair(cluster), two_cta, operator=operator)
    return compile_operator(Grouped(dtype=dtype, out_dtype=out_dtype), design)


_FAMILIES: Mapping[str, tuple[Callable[..., Any], Callable[[Config], Question]]] = {
    "GemmArguments": (gemm, Operands.of),
    "IndexPtrGroupedGemmArguments": (gemm_grouped, Grouped.of),
}


def kernel_of(operator: type) -> Callable[..., Any]:
    """The kernel of an operator class, with the config of ``gemm`` or ``gemm_grouped``, by the arguments it takes.

    This is the adapter for classes that derive from CUTLASS's ``Operator``: see ``precast.kernels.authoring.adapter``.
    """
    takes = operator.supported_args_type.__name__  # type: ignore[attr-defined]
    if takes not in _FAMILIES:
        raise DeclarationError(
            f"{operator.__name__} takes {takes}: an operator that takes one of {', '.join(_FAMILIES)} can be a kernel; "
            "write a function that compiles any other"
        )
    family, ask = _FAMILIES[takes]

    def compile_it(**config: Any) -> Any:
        return compile_operator(ask(config), Design.of(config), operator)

    def supports(config: Config, target: Target) -> str | None:
        return refusal(ask(config), Design.of(config), target, operator)

    compile_it.__name__, compile_it.__doc__ = operator.__name__, operator.__doc__ or family.__doc__
    compile_it.__signature__ = inspect.signature(family)  # type: ignore[attr-defined]
    of_cutlass = operator.__module__.startswith("cutlass.")  # blocks of others' operators may wait for each other
    speed_only = GRID if of_cutlass else ()
    declared: Declaration = replace(declaration_of(family), targets=(), supports=supports, speed_only=speed_only)
    return attach(compile_it, declared)
