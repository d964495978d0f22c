"""A step of a mixture of experts with kernels from a precast cache, beside the same in torch.

    precast build manifests/moe.yaml -o cache             # where the compiler is; no GPU needed
    PRECAST_CACHE_PATH=cache python examples/moe.py       # on a Hopper GPU; needs torch and precast-loader, no compiler

The router's choices and weights are given. A step sorts them by expert, copies tokens to their experts, multiplies by
the weights of gate and up, multiplies by those of down, and adds up what each token's experts found. All of it is one
CUDA graph for any routing. Each side is replayed in turn. ``--dry-run --target sm_90a`` finds and opens every kernel,
and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from graphs import captured, milliseconds
from torch.nn import functional

from precast import loader

DTYPE, FP8, DEVICE = torch.bfloat16, torch.float8_e4m3fn, "cuda"
BLOCK, LARGEST = 128, 448.0  # the values that share a scale, and the largest of float8
TOKENS = (16, 128, 1024, 4096)
ALIKE = 0.98  # the least cosine between a result and the reference in float32


@dataclass(frozen=True)
class Model:
    """The experts of a layer: ``here`` of ``experts`` are on this GPU, as with expert parallelism."""

    experts: int
    here: int
    topk: int
    hidden: int
    inter: int

    def room(self, tokens: int) -> int:
        """Rows for all entries of this GPU's experts, and some more: routers favour some experts."""
        expected = tokens * self.topk * self.here // self.experts
        return min(tokens * self.topk, 2 * expected + 64)


MODELS = {
    "deepseek-v3": Model(256, 32, 8, 7168, 2048),
    "qwen3-235b": Model(128, 128, 8, 4096, 1536),
    "qwen3-30b": Model(128, 128, 8, 2048, 768),
}


@dataclass(frozen=True)
class Routing:
    """The experts of each token, and how much each counts."""

    topk_ids: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def random(cls, model: Model, tokens: int) -> Routing:
        """Scores of a router that favours some experts."""
        liked = torch.randn(model.experts, device=DEVICE) * 0.3
        scores = torch.randn(tokens, model.experts, device=DEVICE) + liked
        best = scores.softmax(-1).topk(model.topk)
        return cls(best.indices.int(), best.values / best.values.sum(-1, keepdim=True))


@dataclass(frozen=True)
class Experts:
    """The weights of this GPU's experts, as checkpoints have them: ``gate_up`` is cat(gate, up)."""

    gate_up: torch.Tensor
    down: torch.Tensor

    @classmethod
    def random(cls, model: Model) -> Experts:
        """Weights that keep activations about one in size."""

        def matrices(rows: int, columns: int) -> torch.Tensor:
            made = torch.empty(model.here, rows, columns, dtype=DTYPE, device=DEVICE)
            for one in made:
                one.copy_(torch.randn(rows, columns, device=DEVICE) * columns**-0.5)
            return made

        return cls(matrices(2 * model.inter, model.hidden), matrices(model.hidden, model.inter))


@dataclass(frozen=True)
class Blocks:
    """Weights in float8, with a scale for each block of 128 by 128."""

    values: torch.Tensor
    scales: torch.Tensor

    @classmethod
    def of(cls, weights: torch.Tensor) -> Blocks:
        """Quantised once, as checkpoints have them."""
        experts, rows, columns = weights.shape
        values = torch.empty_like(weights, dtype=FP8)
        scales = torch.empty(experts, rows // BLOCK, columns // BLOCK, device=DEVICE)
        for one, value, scale in zip(weights, values, scales, strict=True):
            tiles = one.float().view(rows // BLOCK, BLOCK, columns // BLOCK, BLOCK)
            scale.copy_(tiles.abs().amax(dim=(1, 3)) / LARGEST)
            value.copy_((tiles / scale[:, None, :, None]).view(rows, columns))
        return cls(values, scales)


@dataclass(frozen=True)
class Kernels:
    """Every kernel that a step launches, chosen for a number of tokens; those that quantise, in float8 alone."""

    sort: Any
    permute: Any
    gate_up: Any
    down: Any
    finalize: Any
    quantize_x: Any = None
    quantize_inner: Any = None

    @classmethod
    def find(cls, model: Model, tokens: int, *, eight_bits: bool, target: str | None = None) -> Kernels:
        """Resolve and open them. ``target`` stands for a GPU on a machine without one."""
        dtype = FP8 if eight_bits else DTYPE

        def get(op: str, problem: dict[str, int] | None = None, **config: Any) -> Any:
            return loader.get(op, config, target=target, problem=problem)

        def gemm(n: int, k: int, activation: str) -> Any:
            rows = max(1, tokens * model.topk // model.experts)
            config = {"dtype": dtype, "experts": model.here, "activation": activation}
            return get("grouped_gemm_contiguous", {"m": rows, "n": n, "k": k}, **config)

        def quantize(width: int, rows: int) -> Any:
            return get("quantize_fp8", {"rows": rows}, dtype=DTYPE, width=width, block=BLOCK) if eight_bits else None

        rows = {"dtype": dtype, "hidden": model.hidden, "topk": model.topk}
        return cls(
            sort=get("moe_sort", {"tokens": tokens, "k": model.topk}, experts=model.here),
            permute=get("moe_permute", {"tokens": tokens}, **rows, block=BLOCK if eight_bits else None),
            gate_up=gemm(model.inter, model.hidden, "silu"),
            down=gemm(model.hidden, model.inter, ""),
            finalize=get("moe_finalize", {"tokens": tokens}, **{**rows, "dtype": DTYPE}),
            quantize_x=quantize(model.hidden, tokens),
            quantize_inner=quantize(model.inter, model.room(tokens)),
        )


class Step:
    """A step through kernels of a cache. All memory is allocated here, once."""

    def __init__(self, model: Model, experts: Experts, tokens: int) -> None:
        self.kernels = Kernels.find(model, tokens, eight_bits=False)
        self.experts, room = experts, model.room(tokens)
        self.counts, self.offsets = _empty(model.here, dtype=torch.int32), _empty(model.here + 1, dtype=torch.int32)
        self.sources = _empty(room, dtype=torch.int32)
        self.rows = _empty(tokens, model.topk, dtype=torch.int32)
        self.x, self.inner = _empty(1, room, model.hidden), _empty(1, room, model.inter)
        self.y, self.out = _empty(1, room, model.hidden), _empty(tokens, model.hidden)

    def __call__(self, x: torch.Tensor, routing: Routing) -> torch.Tensor:
        """The experts' results, added up."""
        use, experts = self.kernels, self.experts
        use.sort(routing.topk_ids, self.counts, self.offsets, self.sources, self.rows, 0)
        use.permute(x, None, self.rows, self.x, None)
        use.gate_up(self.x, None, experts.gate_up, None, self.inner, self.offsets)
        use.down(self.inner, None, experts.down, None, self.y, self.offsets)
        use.finalize(self.y, self.rows, routing.weights, self.out)
        return self.out


class EightBitStep(Step):
    """The same with float8: what is multiplied has a scale for each 128 values of a row, weights one for each block."""

    def __init__(self, model: Model, gate_up: Blocks, down: Blocks, tokens: int) -> None:
        super().__init__(model, Experts(gate_up.values, down.values), tokens)
        self.kernels = Kernels.find(model, tokens, eight_bits=True)
        self.gate_up, self.down, room = gate_up, down, len(self.sources)
        self.tokens_in = _empty(tokens, model.hidden, dtype=FP8)
        self.x = _empty(1, room, model.hidden, dtype=FP8)
        self.quantised = _empty(1, room, model.inter, dtype=FP8)
        self.tokens_scale = _scales(model.hidden, tokens)
        self.x_scale, self.inner_scale = _scales(model.hidden, room), _scales(model.inter, room)

    def __call__(self, x: torch.Tensor, routing: Routing) -> torch.Tensor:
        """The experts' results, added up."""
        use = self.kernels
        use.quantize_x(x, self.tokens_in, self.tokens_scale)
        use.sort(routing.topk_ids, self.counts, self.offsets, self.sources, self.rows, 0)
        use.permute(self.tokens_in, self.tokens_scale, self.rows, self.x, self.x_scale.unsqueeze(0))
        gate_up, down = self.gate_up, self.down
        use.gate_up(self.x, self.x_scale.unsqueeze(0), gate_up.values, gate_up.scales, self.inner, self.offsets)
        use.quantize_inner(self.inner[0], self.quantised[0], self.inner_scale)
        scale = self.inner_scale.unsqueeze(0)
        use.down(self.quantised, scale, down.values, down.scales, self.y, self.offsets)
        use.finalize(self.y, self.rows, routing.weights, self.out)
        return self.out


def _empty(*shape: int, dtype: torch.dtype = DTYPE) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=DEVICE)


def _scales(width: int, rows: int) -> torch.Tensor:
    """Room for a scale for each 128 values of rows: those of all rows side by side, at a multiple of 16 bytes."""
    return torch.zeros(width // BLOCK, -(-rows // 4) * 4, device=DEVICE)[:, :rows]


class TorchStep:
    """The same step in torch, with its grouped product, for as many rows, so that it can be one CUDA graph too."""

    def __init__(self, model: Model, experts: Experts, tokens: int) -> None:
        self.model, self.experts, self.room = model, experts, model.room(tokens)

    def __call__(self, x: torch.Tensor, routing: Routing) -> torch.Tensor:
        """The experts' results, added up."""
        here, topk = self.model.here, self.model.topk
        flat = routing.topk_ids.flatten()
        key, order = torch.where(flat < here, flat, here).sort(stable=True)
        ones = torch.ones_like(key)
        counts = torch.zeros(here + 1, dtype=torch.int32, device=x.device).scatter_add_(0, key.long(), ones)
        ends = counts[:here].cumsum(0).int()
        key, order = key[: self.room], order[: self.room]
        tokens = order // topk
        inner = torch._grouped_mm(x[tokens], self.experts.gate_up.transpose(1, 2), offs=ends)
        gate, up = inner.chunk(2, dim=-1)
        y = torch._grouped_mm(functional.silu(gate) * up, self.experts.down.transpose(1, 2), offs=ends)
        weighted = y * routing.weights.flatten()[order, None].to(y.dtype)
        weighted = torch.where((key < here)[:, None], weighted, 0)
        return torch.zeros_like(x).index_add_(0, tokens, weighted)


def expected(model: Model, experts: Experts, x: torch.Tensor, routing: Routing) -> torch.Tensor:
    """The step in float32, expert by expert."""
    out = torch.zeros(x.shape, device=x.device)
    for expert in range(model.here):
        tokens, choices = (routing.topk_ids == expert).nonzero(as_tuple=True)
        gate, up = (x[tokens].float() @ experts.gate_up[expert].float().T).chunk(2, dim=-1)
        y = (functional.silu(gate) * up) @ experts.down[expert].float().T
        out.index_add_(0, tokens, y * routing.weights[tokens, choices, None])
    return out


@torch.inference_mode()
def measure(
    name: str, model: Model, experts: Experts, blocks: tuple[Blocks, Blocks] | None, tokens: int, rounds: int
) -> dict[str, Any]:
    """One model and number of tokens: microseconds, and cosines with float32."""
    x, routing = torch.randn(tokens, model.hidden, device=DEVICE).to(DTYPE), Routing.random(model, tokens)
    sides: dict[str, Any] = {
        "precast bfloat16": Step(model, experts, tokens),
        "torch bfloat16": TorchStep(model, experts, tokens),
    }
    if blocks is not None:
        sides["precast float8"] = EightBitStep(model, *blocks, tokens)
    reference = expected(model, experts, x, routing).flatten()
    replays, cosines = {}, {}
    for side, step in sides.items():
        replays[side], result = captured(lambda step=step: step(x, routing))  # type: ignore[misc]
        result.zero_()
        replays[side]()
        torch.cuda.synchronize()
        cosines[side] = float(functional.cosine_similarity(result.float().flatten(), reference, dim=0))
    ours = sides["precast bfloat16"]
    kept = int(ours.rows.ge(0).sum()) == int((routing.topk_ids < model.here).sum())
    found = {side: 1e3 * ms for side, ms in milliseconds(replays, rounds).items()}
    right = kept and all(cosine > ALIKE for cosine in cosines.values())
    return {"model": name, "tokens": tokens, "us": found, "cosine": cosines, "right": right}


def show(row: dict[str, Any]) -> None:
    """One line for each side."""
    theirs = row["us"]["torch bfloat16"]
    for side, us in row["us"].items():
        ratio = f"  torch takes {theirs / us:.3f} times as long" if side.startswith("precast") else ""
        label = f"{row['model']:12s} {row['tokens']:5d} tokens  {side:17s}"
        print(f"{label} {us:9.1f} us  cosine {row['cosine'][side]:.6f}{ratio}", flush=True)
    if not row["right"]:
        print(f"{row['model']} {row['tokens']} tokens: WRONG: a cosine below {ALIKE}, or an entry dropped", flush=True)


def dry_run(options: argparse.Namespace) -> None:
    """Find and open every kernel, without a GPU."""
    for name in options.models:
        for tokens in options.tokens:
            for eight_bits in (False, True) if options.float8 else (False,):
                kernels = Kernels.find(MODELS[name], tokens, eight_bits=eight_bits, target=options.target)
                for role, kernel in vars(kernels).items():
                    if kernel is not None:
                        print(f"{name:12s} {tokens:5d} tokens  {role:14s} {kernel!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; 1 where a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--rounds", type=int, default=20, help="how often each graph is timed")
    parser.add_argument("--float8", action=argparse.BooleanOptionalAction, default=True, help="float8 as well")
    parser.add_argument("--json", metavar="FILE", help="write the figures there")
    parser.add_argument("--dry-run", action="store_true", help="find and open every kernel, launch none")
    parser.add_argument("--target", help="with --dry-run, for a machine without a GPU: such as sm_90a")
    options = parser.parse_args(arguments)
    if options.dry_run:
        dry_run(options)
        return 0
    torch.manual_seed(0)
    rows = []
    for name in options.models:
        experts = Experts.random(MODELS[name])
        blocks = (Blocks.of(experts.gate_up), Blocks.of(experts.down)) if options.float8 else None
        for tokens in options.tokens:
            rows.append(measure(name, MODELS[name], experts, blocks, tokens, options.rounds))
            show(rows[-1])
        del experts, blocks
        torch.cuda.empty_cache()
    if options.json:
        result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
