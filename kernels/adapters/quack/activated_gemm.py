"""``gemm_act`` and ``gemm_gated``: a linear layer and the activation behind it, in one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from precast.kernels import configs
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import rounding, tensors
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.authoring.tile import Tile
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

Activation = Literal["relu", "relu_squared", "silu", "gelu", "gelu_tanh", "quick_gelu", "tanh"]
Gate = Literal["silu", "gelu_tanh", "relu", "sigmoid"]
_ACTIVATIONS = {
    "relu": "relu", "relu_squared": "relu_sq", "silu": "silu", "gelu": "gelu_erf", "gelu_tanh": "gelu_tanh_approx",
    "quick_gelu": "quick_gelu", "tanh": "tanh",
}  # fmt: skip
_GATES = {"silu": "swiglu", "gelu_tanh": "geglu", "relu": "reglu", "sigmoid": "glu"}
_TARGETS = ("sm_90a", "sm_100a", "sm_103a")
_WIDEST = {(True, 64): 256, (True, 128): 208, (True, 192): 128, (False, 64): 256, (False, 128): 256, (False, 256): 208}
"""The widest tile that keeps its sums in registers, by whether two tiles take turns, and by the rows of a tile."""
_DEEPEST = 4096  # k of the problems: the error of a sum in float32 grows with it
_SUM = 2.0**-12  # off by less than this, where sums are about one in size, and none beyond _LARGEST
_LARGEST = 6.0
_STEEPEST = 1.13  # the slope of gelu; that of the others is less, but of the square
_TANH = 2.0**-11  # the hardware's approximation, as a share of the result


def act_supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built for a target, or None."""
    return _refusal(config, target, step=16)


def gated_supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built for a target, or None: a tile holds pairs, and 16 of them are stored at once."""
    return _refusal(config, target, step=32)


def _refusal(config: Config, target: Target, *, step: int) -> str | None:
    reason = QUACK.obstacle()
    if reason:
        return reason
    if config["dtype"] not in ("bfloat16", "float16"):
        return f"dtype is {config['dtype']}: use bfloat16 or float16"
    return tile_refusal(config, target, step=step)


def tile_refusal(config: Config, target: Target, *, step: int) -> str | None:
    """Why quack has no such tile or cluster, or None.

    >>> config = {"tile": (128, 256), "cluster": (2, 1), "pingpong": True}
    >>> tile_refusal(config, Target.parse("sm_90a"), step=32)
    'tile is [128, 256]: with pingpong, the second number is at most 208 for 128 rows; use fewer columns'
    """
    tile, cluster, pingpong = (
        configs.integers(config, "tile"),
        configs.integers(config, "cluster"),
        bool(config["pingpong"]),
    )
    shown = list(tile)
    if len(tile) != 2 or len(cluster) != 2:
        return f"tile is {shown} and cluster {list(cluster)}: give two numbers for each"
    if any(size not in (1, 2, 4) for size in cluster) or cluster[0] * cluster[1] > 4:
        return f"cluster is {list(cluster)}: use 1, 2 or 4 blocks a side, and four at most"
    if target.major != 9:
        if pingpong:
            return f"pingpong is for sm_90a, not {target}: use false"
        if tile[0] not in (128, 256) or (tile[0] == 256) != (cluster[0] % 2 == 0):
            return f"tile is {shown}, and cluster {list(cluster)}: use 256 rows with two blocks a side, 128 with one"
        widest = 256
    else:
        sides = [rows for turns, rows in _WIDEST if turns == pingpong]
        if tile[0] not in sides:
            return f"tile is {shown}: use {', '.join(map(str, sides))} as its first number"
        widest = _WIDEST[pingpong, tile[0]]
    if tile[1] > widest:
        how = "with pingpong" if pingpong else f"on {target}"
        return f"tile is {shown}: {how}, the second number is at most {widest} for {tile[0]} rows; use fewer columns"
    if tile[1] <= 0 or tile[1] % step:
        return f"tile is {shown}: use a multiple of {step} as its second number"
    return None


def problems(config: Config) -> Sequence[Problem]:
    """One row, sizes around a tile with padded rows, odd ones, and a layer's at last."""
    rows, columns = configs.integers(config, "tile")
    shapes = [
        (1, 8, 8, 0),
        (rows - 1, columns // 2 + 8, 72, 8),
        (rows + 1, columns - 8, 200, 0),
        (2 * rows + 3, 3 * columns + 8, 1000, 24),
        (1031, 776, 520, 8),
        (4096, 4096, _DEEPEST, 0),
    ]
    return [{"m": m, "n": n, "k": k, "padding": padding} for m, n, k, padding in shapes]


def act_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``a``, ``b``, ``bias`` where the config has one, and ``out``."""
    arguments = _operands(config, problem, problem["n"], device, seed)
    if config["bias"]:
        arguments["bias"] = tensors.normal((problem["n"],), str(config["dtype"]), device=device, seed=seed + 2) * 0.5
    return {**arguments, "out": _out(config, problem, device)}


def gated_inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """``a``, ``b`` with two columns for each of ``out``, and ``out``."""
    return {**_operands(config, problem, 2 * problem["n"], device, seed), "out": _out(config, problem, device)}


def _operands(config: Config, problem: Problem, columns: int, device: Any, seed: int) -> dict[str, Any]:
    """Values whose products are about one in size; ``b`` is a weight as torch keeps it, transposed."""
    m, k, stride = problem["m"], problem["k"], problem["k"] + problem.get("padding", 0)
    dtype, scale = str(config["dtype"]), problem["k"] ** -0.25
    a = tensors.normal((m, k), dtype, device=device, seed=seed, row_stride=stride)
    weight = tensors.normal((columns, k), dtype, device=device, seed=seed + 1, row_stride=stride)
    return {"a": a.mul_(scale), "b": weight.mul_(scale).T}


def _out(config: Config, problem: Problem, device: Any) -> Any:
    n = problem["n"]
    return tensors.empty(
        (problem["m"], n), str(config["dtype"]), device=device, row_stride=n + problem.get("padding", 0)
    )


def act_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The layer in float64."""
    product = inputs["a"].double() @ inputs["b"].double()
    if config["bias"]:
        product = product + inputs["bias"].double()
    return {"out": activated(str(config["activation"]), product)}


def gated_reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The layer in float64."""
    product = inputs["a"].double() @ inputs["b"].double()
    gate, up = product.chunk(2, dim=-1) if config["layout"] == "halves" else (product[:, 0::2], product[:, 1::2])
    return {"out": activated(str(config["activation"]), gate) * up}


def activated(activation: str, x: Any) -> Any:
    """An activation of a tensor, by torch."""
    import torch

    functions = torch.nn.functional
    return {
        "relu": functions.relu,
        "relu_squared": lambda x: functions.relu(x).square(),
        "silu": functions.silu,
        "gelu": functions.gelu,
        "gelu_tanh": lambda x: functions.gelu(x, approximate="tanh"),
        "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
    }[activation](x)


def act_tolerance(config: Config) -> Tolerance:
    """The error of the sum, times the slope of the activation; that of the activation; and the rounding.

    >>> act_tolerance({"dtype": "bfloat16", "activation": "relu"}).atol < 2.0**-11
    True
    """
    slope = 2 * _LARGEST if config["activation"] == "relu_squared" else _STEEPEST
    return _tolerance(config, slope * _SUM + _approximate(config))


def gated_tolerance(config: Config) -> Tolerance:
    """The same: an error of either factor is multiplied by the other, which is at most ``_LARGEST``."""
    return _tolerance(config, _LARGEST * ((_STEEPEST + 1) * _SUM + _approximate(config)))


def _approximate(config: Config) -> float:
    """How far the hardware's tangent may put an activation off, where it is used."""
    return {"gelu_tanh": _LARGEST / 2 * _TANH, "tanh": _TANH}.get(str(config["activation"]), 0.0)


def _tolerance(config: Config, off: float) -> Tolerance:
    stored = rounding.tolerance(str(config["dtype"]), 1e-5)
    return Tolerance(rtol=stored.rtol, atol=stored.atol + off)


def act_cost(config: Config, problem: Problem) -> Cost:
    """Two operations a product; each matrix once through memory.

    >>> act_cost({"dtype": "bfloat16"}, {"m": 2, "n": 3, "k": 4})
    Cost(flops=48, bytes=52)
    """
    return _cost(config, problem, problem["n"])


def gated_cost(config: Config, problem: Problem) -> Cost:
    """The same, with two columns of ``b`` for each of ``out``."""
    return _cost(config, problem, 2 * problem["n"])


def _cost(config: Config, problem: Problem, columns: int) -> Cost:
    m, n, k = problem["m"], problem["n"], problem["k"]
    return Cost(2 * m * columns * k, (m * k + columns * k + m * n) * bits(str(config["dtype"])) // 8)


def act_tile(config: Config, target: Target) -> Tile:
    """What a cluster of blocks works on: along m and n of the problem.

    >>> wide = {"tile": (256, 192), "cluster": (2, 1)}
    >>> [act_tile(wide, Target.parse(name)).sizes["m"] for name in ("sm_90a", "sm_100a")]
    [512, 256]
    """
    return _tile(config, target, 1)


def gated_tile(config: Config, target: Target) -> Tile:
    """The same; two columns of ``b`` are one of ``out``, which is what n counts."""
    return _tile(config, target, 2)


def _tile(config: Config, target: Target, columns: int) -> Tile:
    tile, cluster = configs.integers(config, "tile"), configs.integers(config, "cluster")
    shared = 2 if target.major != 9 and tile[0] == 256 else 1  # two blocks have a tile of 256 rows together
    sizes = {"m": tile[0] * cluster[0] // shared, "n": tile[1] * cluster[1] // columns}
    return Tile(sizes=sizes, blocks=cluster[0] * cluster[1])


def interleave(weight: Any) -> Any:
    """A weight of two halves, ``cat(gate, up)``, with its rows in the order of the layout ``interleaved``.

    >>> import torch
    >>> interleave(torch.tensor([[1], [2], [10], [20]])).flatten().tolist()
    [1, 10, 2, 20]
    """
    half = len(weight) // 2
    return weight.unflatten(0, (2, half)).transpose(0, 1).reshape(weight.shape)


def _design(tile: Sequence[int], cluster: Sequence[int], pingpong: bool, dtype: str) -> dict[str, Any]:
    device = QUACK.module("quack.cute_dsl_utils").get_compile_target_capacity()
    return {
        "dtype": to_cutlass(dtype), "major": device[0], "tile": tuple(tile), "cluster": tuple(cluster),
        "pingpong": pingpong,
    }  # fmt: skip


@kernel(
    op="gemm_act",
    imports=["quack.epilogue.frontend"],
    targets=_TARGETS,
    supports=act_supports,
    problems=problems,
    inputs=act_inputs,
    outputs=["out"],
    reference=act_reference,
    tolerance=act_tolerance,
    special_values=["zero", "denormal"],  # relu drops NaN
    cost=act_cost,
    tile=act_tile,
    speed_only=GRID,  # blocks take tiles by their number, and none waits for another
)
def gemm_act(
    dtype: DType,
    activation: Activation,
    bias: bool = False,
    tile: Tuned[Sequence[int]] = (128, 192),
    cluster: Tuned[Sequence[int]] = (2, 1),
    pingpong: Tuned[bool] = False,
) -> Any:
    """``gemm_act(a, b, out)``: an activation of the product of ``a`` (m, k) and ``b`` (k, n), stored in ``out`` (m, n).

    With ``bias``, ``gemm_act(a, b, bias, out)``: ``bias`` (n) is added first. For a linear layer, ``b`` is
    ``weight.T``, with ``weight`` as torch keeps it, (n, k). The product, the sum and the activation are computed in
    float32. ``a`` and ``b`` are contiguous along k and ``out`` along n; k, n, the distance of rows and every address
    are multiples of 16 bytes. At least one row. ``pingpong`` (sm_90a) has two tiles take turns.
    """
    from precast.kernels.adapters.quack.activated_gemm_device import compile_act

    return compile_act(_ACTIVATIONS[activation], bias, **_design(tile, cluster, pingpong, dtype))


@kernel(
    op="gemm_gated",
    imports=["quack.epilogue.frontend"],
    targets=_TARGETS,
    supports=gated_supports,
    problems=problems,
    inputs=gated_inputs,
    outputs=["out"],
    reference=gated_reference,
    tolerance=gated_tolerance,
    special_values=["zero", "denormal"],
    cost=gated_cost,
    tile=gated_tile,
    speed_only=GRID,
)
def gemm_gated(
    dtype: DType,
    activation: Gate = "silu",
    layout: Literal["halves", "interleaved"] = "halves",
    tile: Tuned[Sequence[int]] = (128, 192),
    cluster: Tuned[Sequence[int]] = (2, 1),
    pingpong: Tuned[bool] = False,
) -> Any:
    """``gemm_gated(a, b, out)``: ``out`` (m, n) is an activation of the gate, times what it lets through.

    Both are products of ``a`` (m, k) and ``b`` (k, 2 n). With the layout ``halves``, ``b`` is ``gate_up.T``, with
    ``gate_up`` as checkpoints have it: ``cat(gate, up)``, (2 n, k). With ``interleaved``, rows of gate and up
    alternate: ``interleave`` of this module puts a weight in this order. silu makes it SwiGLU (Llama, Qwen),
    gelu_tanh GEGLU (Gemma), sigmoid GLU. That ``b`` has twice the columns of ``out`` is not checked; all else is as
    in ``gemm_act``.
    """
    from precast.kernels.adapters.quack.activated_gemm_device import compile_gated

    return compile_gated(_GATES[activation], layout == "halves", **_design(tile, cluster, pingpong, dtype))
