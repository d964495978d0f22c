"""``quack.rotary``: rotary position embedding of queries or keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels.adapters.quack import library
from precast.kernels.adapters.quack.library import QUACK
from precast.kernels.authoring import configs, rounding, tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance, kernel
from precast.kernels.authoring.dtypes import bits, to_cutlass
from precast.kernels.authoring.hints import DType
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_WIDEST = 512


def supports(config: Config, target: Target) -> str | None:
    """Why a config cannot be built, or None."""
    reason = library.refusal(config, "dim", divisor=8)
    if reason is None and configs.integer(config, "dim") > _WIDEST:
        reason = f"dim is {config['dim']}: use a multiple of 8 up to {_WIDEST}"
    return reason or configs.unsupported_dtype(config, "table_dtype")


def problems(config: Config) -> Sequence[Problem]:
    """One token, few, an odd number of tokens and heads, padded heads, and a large batch last."""
    shapes = [(1, 1, 1, 0), (2, 17, 3, 8), (3, 129, 5, 24), (2, 1031, 4, 0), (4, 4096, 16, 0)]
    return [{"batch": b, "tokens": t, "heads": h, "padding": p} for b, t, h, p in shapes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument that the config has, by name; the tables are longer than the sequences."""
    import torch

    dim, table = configs.integer(config, "dim"), str(config["table_dtype"])
    batch, tokens = problem["batch"], problem["tokens"]
    shape = (batch * tokens,) if config["varlen"] else (batch, tokens)
    angles = tensors.normal((2 * tokens + 3, dim // 2), "float32", device=device, seed=seed + 1).mul_(10.0)
    bounds = [tokens * i - (i % batch and tokens // 3) for i in range(batch + 1)]
    return {
        "x": _heads(config, problem, shape, device, seed),
        "cos": tensors.empty(tuple(angles.shape), table, device=device).copy_(angles.cos()),
        "sin": tensors.empty(tuple(angles.shape), table, device=device).copy_(angles.sin()),
        "offsets": torch.arange(batch, dtype=torch.int32, device=device) if config["offsets"] else None,
        "cu_seqlens": torch.tensor(bounds, dtype=torch.int32, device=device) if config["varlen"] else None,
        "out": _heads(config, problem, shape, device, None),
        "max_seqlen": tokens + tokens // 3 if config["varlen"] else tokens,
    }


def _heads(config: Config, problem: Problem, shape: tuple[int, ...], device: Any, seed: int | None) -> Any:
    """Heads of one dim, with ``padding`` elements between one and the next."""
    dim, heads = configs.integer(config, "dim"), problem["heads"]
    full = (*shape, heads, dim + problem["padding"])
    dtype = str(config["dtype"])
    whole = tensors.empty(full, dtype, device=device)
    if seed is not None:
        whole.copy_(tensors.normal(full, dtype, device=device, seed=seed))
    return whole[..., :dim]


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The rotation in float64."""
    import torch

    x, bounds, offsets = inputs["x"].double(), inputs["cu_seqlens"], inputs["offsets"]
    dim = configs.integer(config, "dim")
    if bounds is None:
        starts = torch.zeros(len(x), dtype=torch.int64, device=x.device) if offsets is None else offsets.long()
        positions = starts.unsqueeze(1) + torch.arange(x.shape[1], device=x.device)
    else:
        lengths = bounds.diff()
        begin = bounds[:-1].long() - (0 if offsets is None else offsets.long())
        positions = torch.arange(len(x), device=x.device) - begin.repeat_interleave(lengths)
    cos, sin = (inputs[name].double()[positions].unsqueeze(-2) for name in ("cos", "sin"))
    sin = -sin if config["conjugate"] else sin
    first, second = (x[..., 0::2], x[..., 1::2]) if config["interleaved"] else (x[..., : dim // 2], x[..., dim // 2 :])
    turned = (first * cos - second * sin, first * sin + second * cos)
    return {"out": torch.stack(turned, dim=-1).flatten(-2) if config["interleaved"] else torch.cat(turned, dim=-1)}


def tolerance(config: Config) -> Tolerance:
    """A sum of two products in float32, which may cancel, then the rounding to the stored dtype."""
    return Tolerance(rtol=rounding.tolerance(str(config["dtype"]), 1e-6).rtol, atol=2e-6)


def cost(config: Config, problem: Problem) -> Cost:
    """Read once, written once, and the part of the tables that the tokens need."""
    tokens, dim = problem["tokens"], configs.integer(config, "dim")
    elements = problem["batch"] * tokens * problem["heads"] * dim
    memory = 2 * elements * bits(str(config["dtype"])) + tokens * dim * bits(str(config["table_dtype"]))
    return Cost(3 * elements, memory // 8)


@kernel(
    op="quack.rotary",
    imports=["quack.rotary"],
    targets=library.TARGETS,
    supports=supports,
    problems=problems,
    inputs=inputs,
    outputs=["out"],
    reference=reference,
    tolerance=tolerance,
    special_values=["nan", "zero", "denormal"],
    cost=cost,
    arguments={
        "mX": "x", "mCos": "cos", "mSin": "sin", "mSeqlenOffsets": "offsets", "mCuSeqlens": "cu_seqlens", "mO": "out",
    },
)  # fmt: skip
def rotary(
    dtype: DType,
    dim: int,
    table_dtype: DType = "float32",
    interleaved: bool = False,
    conjugate: bool = False,
    varlen: bool = False,
    offsets: bool = False,
) -> Any:
    """Rotary embedding of the first ``dim`` of each head: ``(x, cos, sin, offsets, cu_seqlens, out, max_seqlen)``.

    ``x`` and ``out`` are ``[batch, tokens, heads, size]`` of any ``size`` from ``dim``, or ``[tokens, heads, size]``
    with ``varlen``; their strides keep heads aligned to 16 bytes, and ``out`` may be ``x``. What lies past ``dim`` is
    not written. ``cos`` and ``sin`` are ``[positions, dim / 2]``, with a row for every position that occurs. Halves are
    rotated (as in Llama), or neighbours with ``interleaved`` (as in GPT-J); ``conjugate`` turns back, for gradients.
    With ``offsets``, ``[batch]`` of int32 holds each sequence's first position, else it is 0; with ``varlen``,
    ``cu_seqlens`` ``[batch + 1]`` of int32 holds where sequences begin. ``max_seqlen`` is the longest one's length.
    """
    index = to_cutlass("int32")
    return QUACK.call(
        "quack.rotary:RotaryKernel.compile",
        dtype=to_cutlass(dtype),
        cossin_dtype=to_cutlass(table_dtype),
        seqlen_offsets_dtype=index if offsets else None,
        cu_seqlens_dtype=index if varlen else None,
        dim=dim,
        interleaved=interleaved,
        conjugate=conjugate,
    )
