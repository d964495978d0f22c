"""``grouped_gemm_masked``: a product for each expert, of as many rows as it has, which only the device knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.matrix.grouping import BLOCK, Grouping
from precast.loader.format.config import Config
from precast.loader.format.target import Target

_FP8 = "float8_e4m3fn"
_DTYPES = ("bfloat16", "float16", _FP8)
_STORED = ("bfloat16", "float16")
_MOST = 1023  # experts: those of the table in shared memory
_SIZE = 64.0  # of values in float8, which their scales undo


def grouping_of(config: Config) -> Grouping:
    """The grouping of a full config: ``tile`` is its (m, n), ``cluster`` the blocks along each.

    >>> grouping_of({"dtype": "bfloat16", "tile": (64, 128), "cluster": (1, 2)}).stages
    8
    """
    tokens, rows = configs.integers(config, "tile")
    dtype = str(config["dtype"])
    return Grouping(
        tokens=tokens,
        rows=rows,
        width=bits(dtype) // 8,
        scaled=dtype == _FP8,
        across=configs.integers(config, "cluster")[1],
    )


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> some = {"dtype": "bfloat16", "out_dtype": "bfloat16", "experts": 32, "tile": (64, 96), "cluster": (1, 1)}
    >>> supports(some, Target.parse("sm_90a"))
    'tile has n 96: use one of 64, 128, 256'
    """
    for key, allowed in (("dtype", _DTYPES), ("out_dtype", _STORED)):
        if reason := configs.not_among(config, key, allowed):
            return reason
    if not 1 <= configs.integer(config, "experts") <= _MOST:
        return f"experts is {config['experts']}: use 1 to {_MOST}"
    tile, cluster = configs.integers(config, "tile"), configs.integers(config, "cluster")
    if len(tile) != 2:
        return f"tile is {list(tile)}: write its (m, n)"
    if len(cluster) != 2 or cluster[0] != 1:
        return f"cluster is {list(cluster)}: write [1, n]: blocks that load the same tokens, with other weights"
    return grouping_of(config).refusal()


def problems(config: Config) -> Sequence[Problem]:
    """Sizes around every boundary of a tile, with padded rows, and a model's size last.

    >>> problems({"experts": 8, "dtype": "bfloat16", "tile": (64, 128), "cluster": (1, 1)})[0]
    {'rows': 0, 'm': 0, 'n': 128, 'k': 128, 'padding': 0}
    """
    tokens, rows = configs.integers(config, "tile")
    cases = [
        (0, 0, 128, 128, 0), (4, 1, 8, 16, 0), (tokens, tokens // 2, rows + 8, 80, 16),
        (2 * tokens + 4, tokens + 1, 2 * rows - 8, 256, 16), (3 * tokens, tokens, 3 * rows, 1040, 0),
        (512, 128, 2048, 2048, 0),
    ]  # fmt: skip
    return [{"rows": most, "m": m, "n": n, "k": k, "padding": pad} for most, m, n, k, pad in cases]


def _counts(config: Config, problem: Problem, seed: int) -> Any:
    """The rows of each expert: in pairs, one has as many more than ``m`` as the other fewer; one of the first has none.
    """
    import torch

    experts, m = configs.integer(config, "experts"), problem["m"]
    generator = torch.Generator(device="cpu").manual_seed(seed)
    off = (torch.rand(experts // 2, generator=generator) * m).int()
    off[:1] = m
    counts = torch.full((experts,), m, dtype=torch.int32)
    counts[: len(off)] += off
    counts[len(off) : 2 * len(off)] -= off
    return counts.clamp(max=problem.get("rows", 2 * m))


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument by name; None for the scales where values are not float8. Results are about one in size."""
    import torch

    experts, dtype, out_dtype = configs.integer(config, "experts"), str(config["dtype"]), str(config["out_dtype"])
    m, n, k, pad = problem["m"], problem["n"], problem["k"], problem.get("padding", 0)
    rows = problem.get("rows", 2 * m)
    scaled = dtype == _FP8
    size = _SIZE if scaled else 1.0

    def tensor(rows: int, columns: int, dtype: str, factor: float, seed: int) -> Any:
        generator = torch.Generator(device=device).manual_seed(seed)
        made = torch.empty((experts, rows, columns + pad), dtype=to_torch(dtype), device=device)
        for part in made:  # one expert at a time: all of them in float32 would take much memory
            values = torch.randn((rows, columns + pad), generator=generator, dtype=torch.float32, device=device)
            part.copy_(values.mul_(factor))
        return made[..., :columns]

    def scale(shape: tuple[int, ...], factor: float, seed: int) -> Any:
        generator = torch.Generator(device=device).manual_seed(seed)
        return torch.rand(shape, generator=generator, device=device).add_(0.5).mul_(factor)

    blocks = -(-k // BLOCK)
    apart = -(-rows // 4) * 4  # scales of tokens: TMA takes strides of 16 bytes
    return {
        "a": tensor(rows, k, dtype, size, seed),
        "a_scale": scale((experts, blocks, apart), 1 / size, seed + 3)[..., :rows] if scaled else None,
        "b": tensor(n, k, dtype, size if scaled else k**-0.5, seed + 1),
        "b_scale": scale((experts, -(-n // BLOCK), blocks), k**-0.5 / size, seed + 4) if scaled else None,
        "out": tensor(rows, n, out_dtype, 1.0, seed + 2),
        "masked_m": _counts(config, problem, seed).to(device),
    }


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The products in float64, expert by expert, beside what was there."""
    out = inputs["out"].double()
    for expert, count in enumerate(inputs["masked_m"].tolist()):
        a, b = inputs["a"][expert, :count].double(), inputs["b"][expert].double()
        if inputs["a_scale"] is not None:
            a = a * _spread(inputs["a_scale"][expert, :, :count].T, a.shape, (1, BLOCK))
            b = b * _spread(inputs["b_scale"][expert], b.shape, (BLOCK, BLOCK))
        out[expert, :count] = a @ b.T
    return {"out": out}


def _spread(scale: Any, shape: Sequence[int], block: tuple[int, int]) -> Any:
    """The scale of each value."""
    whole = scale.double().repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return whole[: shape[0], : shape[1]]


def tolerance(config: Config) -> Tolerance:
    """The rounding of the result, and the error of sums of about one in size, in float32.

    A sum of up to 8192 products is off by less than ``2**-11``. Of float8, Hopper keeps some 13 bits while it adds, for
    128 of k at a time: each of its four steps may cut ``2**-13`` of a sum that is at most five times its usual size, and
    such errors add up over the blocks of k as the sums do, so that all of them are below ``2**-8``.

    >>> tolerance({"dtype": "bfloat16", "out_dtype": "bfloat16"}).ulps
    0.75
    """
    stored = rounding.stored(str(config["out_dtype"]), 0.0)
    arithmetic = 2.0**-8 if config["dtype"] == _FP8 else 2.0**-11
    return Tolerance(rtol=stored.rtol, atol=stored.atol + arithmetic, ulps=stored.ulps)


def cost(config: Config, problem: Problem) -> Cost:
    """Two operations a product; the weights of experts with rows, and each row, once through memory.

    >>> some = {"dtype": "bfloat16", "out_dtype": "bfloat16", "experts": 3}
    >>> cost(some, {"m": 2, "n": 8, "k": 8})
    Cost(flops=768, bytes=448)
    """
    m, n, k, experts = problem["m"], problem["n"], problem["k"], configs.integer(config, "experts")
    with_rows = experts - 1 if experts > 1 else experts
    width, stored = bits(str(config["dtype"])) // 8, bits(str(config["out_dtype"])) // 8
    rows = m * experts
    return Cost(2 * rows * n * k, (rows * k + with_rows * n * k) * width + rows * n * stored)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's grouped product of the same rows, which it wants one after another."""
    import torch

    if config["dtype"] != "bfloat16" or config["out_dtype"] != "bfloat16" or not hasattr(torch, "_grouped_mm"):
        return {}
    counts = inputs["masked_m"]
    a = torch.cat([rows[:count] for rows, count in zip(inputs["a"], counts.tolist(), strict=True)])
    b, ends = inputs["b"].transpose(1, 2), counts.cumsum(0).int()
    return {"torch._grouped_mm": lambda: torch._grouped_mm(a, b, offs=ends)}


@kernel(
    op="grouped_gemm_masked",
    targets=["sm_90a"],
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    in_place=["out"],
    reference=reference,
    tolerance=tolerance,
    special_values=["nan", "zero", "denormal"],
    cost=cost,
    peer=peer,
    speed_only=GRID,
)
def grouped_gemm_masked(
    dtype: DType,
    experts: int,
    out_dtype: DType = "bfloat16",
    tile: Tuned[Sequence[int]] = (64, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
) -> Any:
    """``grouped_gemm_masked(a, a_scale, b, b_scale, out, masked_m)``: ``out[e, :m] = a[e, :m] @ b[e].T``.

    ``m`` is ``masked_m[e]``, an int32 on the device: so a CUDA graph serves any numbers of rows. ``a`` is
    ``[experts, rows, k]``, ``b`` ``[experts, n, k]`` as checkpoints have weights, and ``out`` ``[experts, rows, n]``,
    of which rows at ``m`` and after stay as they were. Any rows, n and k whose rows are multiples of 16 bytes; strides
    but the last are free multiples of these.

    With ``float8_e4m3fn``, values have scales in float32: ``a_scale`` ``[experts, k / 128, rows]``, one for each 128 of a
    row, those of all rows side by side, and ``b_scale`` ``[experts, n / 128, k / 128]``, one for each block of 128 by
    128. What each 128 of k add up to is scaled and added in float32. Strides of ``a_scale`` are multiples of 4. With
    other dtypes, pass None for both.

    ``tile`` is (m, n): as many tokens as an expert has, about, and rows of weights. ``cluster`` (1, n) has blocks with
    other weights load the same tokens together, which is for many tokens.
    """
    from precast.kernels.own.matrix.device.grouped_gemm_masked import compile_grouped_gemm_masked

    config = {"dtype": dtype, "tile": tile, "cluster": cluster}
    return compile_grouped_gemm_masked(grouping_of(config), to_cutlass(dtype), to_cutlass(out_dtype), experts)
