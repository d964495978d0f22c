"""``gemm_f64``: a product of matrices in double precision, on tensor cores.

The compiled function is called as ``gemm_f64(a, b, out)``: ``out`` (m, n) is ``a`` (m, k) times ``b`` (k, n), of any
size. Every other number of the config says how the lines of the matrices lie in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from precast.kernels.authoring import configs
from precast.kernels.authoring.declare import kernel
from precast.kernels.authoring.hints import Tuned
from precast.kernels.own.matrix import products
from precast.kernels.own.matrix.staging import Side, Staging
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

# What one instruction multiplies, (m, n, k), and the first compute capability that has it.
_INSTRUCTIONS = {"8x8x4": (8, 0), "16x8x4": (9, 0), "16x8x8": (9, 0), "16x8x16": (9, 0)}


def staging_of(config: Config) -> Staging:
    """The staging of a full config.

    >>> staging_of({"tile": (128, 64, 16), "warps": (2, 2), "stages": 4, "residents": 2, "align": 16,
    ...             "a_major": "k", "b_major": "n", "out_major": "n"}).threads
    128
    """
    (m, n, k), (down, right) = configs.integers(config, "tile"), configs.integers(config, "warps")
    contiguous = (config["a_major"] == "k", config["b_major"] == "k")
    if config["out_major"] == "m":  # computed transposed, with the sides exchanged
        m, n, down, right, contiguous = n, m, right, down, contiguous[::-1]
    copied = configs.integer(config, "align")
    first, second = (
        Side(along, k, contiguous_k, bits=64, granule=4, together=4, copied=copied)
        for along, contiguous_k in zip((m, n), contiguous, strict=True)
    )
    return Staging(
        first, second, (down, right), configs.integer(config, "stages"), configs.integer(config, "residents")
    )


def instruction_of(config: Config) -> tuple[int, int, int]:
    """The (m, n, k) of the instruction.

    >>> instruction_of({"instruction": "16x8x4"})
    (16, 8, 4)
    """
    m, n, k = map(int, str(config["instruction"]).split("x"))
    return m, n, k


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    if reason := products.shape_refusal(config):
        return reason
    least = _INSTRUCTIONS[str(config["instruction"])]
    if (target.capability.major, target.capability.minor) < least:
        return f"instruction {config['instruction']} is for sm_{least[0]}{least[1]}+, not {target}: use 8x8x4"
    return staging_of(config).refusal(instruction_of(config), target)


_PRODUCT = products.Product(staging_of, "float64")


@kernel(
    op="gemm_f64",
    targets=["sm_80+"],
    supports=supports,
    problems=_PRODUCT.problems,
    large=products.large,
    inputs=_PRODUCT.inputs,
    outputs=["out"],
    reference=products.reference,
    tolerance=_PRODUCT.tolerance,
    cost=_PRODUCT.cost,
    tile=_PRODUCT.tile,
    peer=products.peer,
)
def gemm_f64(
    a_major: Literal["k", "m"] = "k",
    b_major: Literal["n", "k"] = "n",
    out_major: Literal["n", "m"] = "n",
    batched: bool = False,
    align: Literal[16, 8] = 16,
    tile: Tuned[Sequence[int]] = (128, 64, 16),
    warps: Tuned[Sequence[int]] = (2, 2),
    stages: Tuned[int] = 4,
    residents: Tuned[int] = 2,
    instruction: Tuned[Literal["8x8x4", "16x8x4", "16x8x8", "16x8x16"]] = "8x8x4",
) -> Any:
    """``gemm_f64(a, b, out)``: the product of ``a`` (m, k) and ``b`` (k, n), stored in ``out`` (m, n), all float64.

    ``a_major``, ``b_major`` and ``out_major`` name the contiguous dimension of each. Addresses, and all other strides,
    are multiples of ``align`` bytes: 8 takes any matrix, 16 is faster. ``batched`` puts a dimension before the others
    of all three.

    ``tile`` is the (m, n, k) that a block multiplies at a time, with (m, n) ``warps``, out of ``stages`` stages;
    registers are shared out so that ``residents`` blocks fit on a multiprocessor. ``instruction`` is what a warp
    multiplies at a time; those of 16 rows are for sm_90 and later, and twice as fast on Hopper.
    """
    from precast.kernels.own.matrix.device.gemm_f64 import compile_gemm

    config = locals()
    majors = {"a": a_major, "b": b_major, "out": out_major}
    return compile_gemm(staging_of(config), instruction_of(config), majors, align=align, batched=batched)
