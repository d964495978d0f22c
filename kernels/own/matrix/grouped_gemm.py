"""``grouped_gemm_masked`` and ``grouped_gemm_contiguous``: a product for each expert, of as many rows as it has.

How many that are only the device knows, so that one CUDA graph serves any routing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from precast.kernels import configs
from precast.kernels.authoring import rounding
from precast.kernels.authoring.declare import GRID, Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass, to_torch
from precast.kernels.authoring.hints import DType, Tuned
from precast.kernels.own.matrix.grouping import BLOCK, Grouping
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

F = TypeVar("F", bound=Callable[..., Any])
Activation = Literal["", "silu"]
_FP8 = "float8_e4m3fn"
_DTYPES = ("bfloat16", "float16", _FP8)
_STORED = ("bfloat16", "float16")
_MOST = 1023  # experts: those of the table in shared memory
_SIZE = 64.0  # of values in float8, which their scales undo


def grouping(dtype: str, activation: str, tile: Sequence[int], cluster: Sequence[int]) -> Grouping:
    """How a product is divided: ``tile`` is its (m, n), ``cluster`` the blocks along each.

    >>> grouping("bfloat16", "", (64, 128), (1, 2)).stages
    8
    """
    (tokens, rows), (along, across) = tile, cluster
    return Grouping(
        tokens=tokens,
        rows=rows,
        width=bits(dtype) // 8,
        scaled=dtype == _FP8,
        gated=activation == "silu",
        along=along,
        across=across,
    )


def grouping_of(config: Config) -> Grouping:
    """The grouping of a full config."""
    tile, cluster = configs.integers(config, "tile"), configs.integers(config, "cluster")
    return grouping(str(config["dtype"]), str(config["activation"]), tile, cluster)


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None.

    >>> config = {"dtype": "bfloat16", "out_dtype": "bfloat16", "experts": 32, "tile": (64, 96), "cluster": (1, 1)}
    >>> supports({**config, "activation": ""}, Target.parse("sm_90a"))
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
    if len(cluster) != 2:
        return f"cluster is {list(cluster)}: write its (m, n)"
    return grouping_of(config).refusal()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedProduct:
    """A decorator that declares products of one layout: with ``packed``, the rows of all experts follow one another."""

    op: str
    packed: bool

    def __call__(self, function: F) -> F:
        """Declare the function that compiles the kernel."""
        declare = kernel(
            op=self.op,
            targets=["sm_90a"],
            supports=supports,
            problems=self.problems,
            inputs=self.inputs,
            outputs=["out"],
            in_place=["out"],
            reference=self.reference,
            arguments={"counts": self.counts},
            tolerance=tolerance,
            special_values=["nan", "zero", "denormal"],
            cost=cost,
            peer=self.peer,
            speed_only=GRID,
        )
        return declare(function)

    @property
    def counts(self) -> str:
        """The argument with the number of rows of each expert, or where the rows of each begin."""
        return "offsets" if self.packed else "masked_m"

    def problems(self, config: Config) -> Sequence[Problem]:
        """Sizes around every boundary of a tile, with padded rows, and a model's size last.

        >>> config = {"experts": 8, "dtype": "bfloat16", "activation": "", "tile": (64, 128), "cluster": (1, 1)}
        >>> MASKED.problems(config)[0]
        {'m': 0, 'n': 128, 'k': 128, 'padding': 0}
        """
        blocks = grouping_of(config)
        tokens, columns = blocks.tokens, blocks.columns
        cases = [
            (0, 128, 128, 0), (1, 8, 16, 0), (tokens // 2, columns + 8, 80, 16),
            (tokens + 1, 2 * columns - 8, 256, 16), (3, columns, 0, 16), (tokens, 3 * columns, 1040, 0),
            (128, 2048, 2048, 0),
        ]  # fmt: skip
        step = BLOCK if blocks.gated and blocks.scaled else 1  # the scales of a gate's last rows are its own
        return [{"m": m, "n": -(-n // step) * step, "k": k, "padding": pad} for m, n, k, pad in cases]

    def inputs(self, config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
        """Every argument by name; None for the scales where values are not float8. Sums are about one in size."""
        import torch

        experts, dtype, out_dtype = configs.integer(config, "experts"), str(config["dtype"]), str(config["out_dtype"])
        m, n, k, pad = problem["m"], problem["n"], problem["k"], problem.get("padding", 0)
        segments, rows, counts = experts, 2 * m + pad // 4, _counts(experts, m, seed)
        if self.packed:
            segments, rows = 1, m * experts
            counts = torch.cat((counts.new_zeros(1), counts.cumsum(0).int()))
        columns = n * grouping_of(config).loads
        scaled = dtype == _FP8
        size = _SIZE if scaled else 1.0

        def tensor(parts: int, rows: int, columns: int, dtype: str, factor: float, seed: int) -> Any:
            generator = torch.Generator(device=device).manual_seed(seed)
            result = torch.empty((parts, rows, columns + pad), dtype=to_torch(dtype), device=device)
            for part in result:  # one at a time: all of them in float32 would take much memory
                values = torch.randn((rows, columns + pad), generator=generator, dtype=torch.float32, device=device)
                part.copy_(values.mul_(factor))
            return result[..., :columns]

        def scale(shape: tuple[int, ...], factor: float, seed: int) -> Any:
            generator = torch.Generator(device=device).manual_seed(seed)
            return torch.rand(shape, generator=generator, device=device).add_(0.5).mul_(factor)

        blocks, each = -(-k // BLOCK), max(k, 1) ** -0.5
        apart = rows + pad // 16
        return {
            "a": tensor(segments, rows, k, dtype, size, seed),
            "a_scale": scale((segments, blocks, apart), 1 / size, seed + 3)[..., :rows] if scaled else None,
            "b": tensor(experts, columns, k, dtype, size if scaled else each, seed + 1),
            "b_scale": scale((experts, -(-columns // BLOCK), blocks), each / size, seed + 4) if scaled else None,
            "out": tensor(segments, rows, n, out_dtype, 1.0, seed + 2),
            self.counts: counts.to(device),
        }

    def reference(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The products in float64, expert by expert, beside what was there."""
        import torch

        out = inputs["out"].double()
        for expert, (segment, rows) in enumerate(self._rows(inputs)):
            a, b = inputs["a"][segment, rows].double(), inputs["b"][expert].double()
            if inputs["a_scale"] is not None:
                a = a * _spread(inputs["a_scale"][segment, :, rows].T, a.shape, (1, BLOCK))
                b = b * _spread(inputs["b_scale"][expert], b.shape, (BLOCK, BLOCK))
            result = a @ b.T
            if config["activation"] == "silu":
                gate, other = result.chunk(2, dim=-1)
                result = torch.nn.functional.silu(gate) * other
            out[segment, rows] = result
        return {"out": out}

    def peer(self, config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
        """torch's grouped product of the same rows, copied one after another as it takes them."""
        import torch

        half = config["dtype"] == config["out_dtype"] == "bfloat16"
        if not half or config["activation"] or not hasattr(torch, "_grouped_mm"):
            return {}
        rows = self._rows(inputs)
        a = torch.cat([inputs["a"][position] for position in rows])
        counts = torch.tensor([position[1].stop - position[1].start for position in rows], device=a.device)
        b, ends = inputs["b"].transpose(1, 2), counts.cumsum(0).int()
        return {"torch._grouped_mm": lambda: torch._grouped_mm(a, b, offs=ends)}

    def _rows(self, inputs: Mapping[str, Any]) -> list[tuple[int, slice]]:
        """The segment and the rows of each expert."""
        if not self.packed:
            return [(expert, slice(0, count)) for expert, count in enumerate(inputs["masked_m"].tolist())]
        offsets = inputs["offsets"].tolist()
        return [(0, slice(start, end)) for start, end in itertools.pairwise(offsets)]


def _counts(experts: int, m: int, seed: int) -> Any:
    """The rows of each expert: in pairs, one has as many more than ``m`` as the other fewer. One has none."""
    import torch

    generator = torch.Generator(device="cpu").manual_seed(seed)
    off = (torch.rand(experts // 2, generator=generator) * m).int()
    off[:1] = m
    counts = torch.full((experts,), m, dtype=torch.int32)
    counts[: len(off)] += off
    counts[len(off) : 2 * len(off)] -= off
    return counts


def _spread(scale: Any, shape: Sequence[int], block: tuple[int, int]) -> Any:
    """The scale of each value."""
    whole = scale.double().repeat_interleave(block[0], 0).repeat_interleave(block[1], 1)
    return whole[: shape[0], : shape[1]]


def tolerance(config: Config) -> Tolerance:
    """The rounding of the result, and the error of sums of about one in size, in float32.

    A sum of up to 8192 products is off by less than ``2**-11``. With float8, Hopper keeps about 13 bits while it adds
    128 of k at a time: each of its four steps may cut ``2**-13`` of a sum that is at most five times its usual size,
    and such errors add up over the blocks of k as the sums do, so that all of them are below ``2**-8``. Behind an
    activation the error of each sum is multiplied with the other, which is below 6 in size.

    >>> tolerance({"dtype": "bfloat16", "out_dtype": "bfloat16", "activation": ""}).ulps
    0.75
    """
    stored = rounding.stored(str(config["out_dtype"]), 6e-6)
    arithmetic = 2.0**-8 if config["dtype"] == _FP8 else 2.0**-11
    if config["activation"]:
        arithmetic *= 6
    return Tolerance(rtol=stored.rtol, atol=stored.atol + arithmetic, ulps=stored.ulps)


def cost(config: Config, problem: Problem) -> Cost:
    """Two operations a product; the weights of experts with rows, and each row, once through memory.

    >>> config = {"dtype": "bfloat16", "out_dtype": "bfloat16", "activation": "", "experts": 3}
    >>> cost(config, {"m": 2, "n": 8, "k": 8})
    Cost(flops=768, bytes=448)
    """
    m, n, k, experts = problem["m"], problem["n"], problem["k"], configs.integer(config, "experts")
    columns = 2 * n if config["activation"] else n
    with_rows = experts - 1 if experts > 1 else experts
    width, stored = bits(str(config["dtype"])) // 8, bits(str(config["out_dtype"])) // 8
    rows = m * experts
    return Cost(2 * rows * columns * k, (rows * k + with_rows * columns * k) * width + rows * n * stored)


MASKED = GroupedProduct(op="grouped_gemm_masked", packed=False)
CONTIGUOUS = GroupedProduct(op="grouped_gemm_contiguous", packed=True)


def _compile(
    dtype: str,
    experts: int,
    out_dtype: str,
    activation: str,
    tile: Sequence[int],
    cluster: Sequence[int],
    *,
    packed: bool,
) -> Any:
    from precast.kernels.own.matrix.device.grouped_gemm import compile_grouped_gemm

    blocks = grouping(dtype, activation, tile, cluster)
    return compile_grouped_gemm(blocks, to_cutlass(dtype), to_cutlass(out_dtype), experts, packed=packed)


@MASKED
def grouped_gemm_masked(
    dtype: DType,
    experts: int,
    out_dtype: DType = "bfloat16",
    activation: Activation = "",
    tile: Tuned[Sequence[int]] = (64, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
) -> Any:
    """``grouped_gemm_masked(a, a_scale, b, b_scale, out, masked_m)``: ``out[e, :m] = a[e, :m] @ b[e].T``.

    ``m`` is ``masked_m[e]``, an int32 on the device. ``a`` is ``[experts, rows, k]``, ``b`` ``[experts, n, k]`` as
    checkpoints have weights, and ``out`` ``[experts, rows, n]``, of which rows at ``m`` and after stay as they were.
    Any rows, n and k whose rows are multiples of 16 bytes; strides but the last are free multiples of these.

    With ``float8_e4m3fn``, values have scales in float32: ``a_scale`` ``[experts, k / 128, rows]``, one for each 128 of
    a row, those of all rows side by side, and ``b_scale`` ``[experts, n / 128, k / 128]``, one for each block of 128 by
    128. What each 128 of k add up to is scaled and added in float32. With other dtypes, pass None for both.

    With ``activation`` ``silu``, ``b`` is ``[experts, 2 * n, k]``, ``cat(gate, up)``, and ``out`` takes
    ``silu(gate) * up``; in float8, n is a multiple of 128.

    ``tile`` is (m, n): as many tokens as an expert has, about, and rows of weights. ``cluster`` is for many tokens:
    with (1, n), blocks with other weights load the same tokens together; with (m, 1), blocks with other tokens the same
    weights.
    """
    return _compile(dtype, experts, out_dtype, activation, tile, cluster, packed=False)


@CONTIGUOUS
def grouped_gemm_contiguous(
    dtype: DType,
    experts: int,
    out_dtype: DType = "bfloat16",
    activation: Activation = "",
    tile: Tuned[Sequence[int]] = (64, 128),
    cluster: Tuned[Sequence[int]] = (1, 1),
) -> Any:
    """``grouped_gemm_contiguous(a, a_scale, b, b_scale, out, offsets)``: ``out[0, r] = a[0, r] @ b[e].T``.

    The rows ``r`` of an expert are those from ``offsets[e]`` to ``offsets[e + 1]``, an int32 ``[experts + 1]`` on the
    device as ``moe_sort`` finds it; they need not begin at a multiple of anything. ``a`` is ``[1, rows, k]``,
    ``a_scale`` ``[1, k / 128, rows]`` and ``out`` ``[1, rows, n]``, of which rows of no expert stay as they were.
    Everything else is as in ``grouped_gemm_masked``.
    """
    return _compile(dtype, experts, out_dtype, activation, tile, cluster, packed=True)
