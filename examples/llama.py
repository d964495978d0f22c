"""Llama 3 8B, a stack of its layers, with kernels from a precast cache beside the same layers in torch.

    precast build manifests/llama.yaml -o cache             # where the compiler is; no GPU needed
    PRECAST_CACHE_PATH=cache python examples/llama.py       # on a GPU; needs torch and precast-loader, no compiler

Each side is captured in one CUDA graph, and all are replayed in turn. Torch's attention is the backend that torch
chooses, and in another graph cuDNN's: the ratio is to the faster one. The weights of a few layers are far larger than
the L2 cache, so that every product reads its weight from memory, as in a model. ``--dry-run --target sm_90a`` finds and
opens every kernel, and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from graphs import captured, milliseconds
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from precast import loader

HIDDEN, INTER, HEADS, KV_HEADS, SIZE, PAGE = 4096, 14336, 32, 8, 128, 16
QUERIES, KEYS = HEADS * SIZE, KV_HEADS * SIZE
EPS, THETA, SCALE = 1e-5, 500_000.0, SIZE**-0.5
DTYPE, DEVICE = torch.bfloat16, "cuda"
TOKENS = (1, 24, 80, 200, 300, 600, 1500, 4096)  # but for the first and the last, none that the manifest tunes for
CUDNN = "torch, cuDNN"
COMPILED = "torch.compile"
PEERS = {"torch": None, CUDNN: SDPBackend.CUDNN_ATTENTION}  # the backend of attention: torch's choice, or this one


@dataclass(frozen=True)
class Layer:
    """The weights of one layer, as checkpoints have them; those that are multiplied together are one matrix."""

    qkv: torch.Tensor
    o: torch.Tensor
    gate_up: torch.Tensor  # cat(gate, up)
    down: torch.Tensor
    attention_norm: torch.Tensor
    mlp_norm: torch.Tensor

    @classmethod
    def random(cls) -> Layer:
        """Weights that keep activations about one in size."""

        def matrix(rows: int, columns: int) -> torch.Tensor:
            return (torch.randn(rows, columns, device=DEVICE) * columns**-0.5).to(DTYPE)

        norms = [(torch.rand(HIDDEN, device=DEVICE) + 0.5).to(DTYPE) for _ in range(2)]
        down = matrix(HIDDEN, INTER) * 2
        return cls(matrix(QUERIES + 2 * KEYS, HIDDEN), matrix(HIDDEN, QUERIES), matrix(2 * INTER, HIDDEN), down, *norms)

    def float(self) -> Layer:
        """The same in float32, for the reference."""
        return Layer(*(weight.float() for weight in vars(self).values()))


@dataclass(frozen=True)
class Kernels:
    """Every kernel that a layer launches, chosen for a number of tokens."""

    norm: Any
    add_norm: Any
    qkv: Any
    rotary: Any
    attention: Any
    o: Any
    gate_up: Any  # with its activation, or without, where act_and_mul is not None
    act_and_mul: Any
    down: Any

    @classmethod
    def find(cls, tokens: int, *, fused: bool, early: bool = False, target: str | None = None) -> Kernels:
        """Resolve and open them. ``target`` stands for a GPU on a machine without one. ``early`` promises that weights
        were written long before, so that a product may load them while the kernel before it runs."""

        def get(op: str, problem: dict[str, int] | None = None, **config: Any) -> Any:
            return loader.get(op, {"dtype": DTYPE, **config}, target=target, problem=problem)

        def gemm(n: int, k: int) -> Any:
            return get("gemm", {"m": tokens, "n": n, "k": k}, out_dtype=DTYPE, weights=early)

        lengths = {"batch": 1, "queries": tokens, "keys": tokens, "kv_heads": KV_HEADS, "padding": 0}
        heads = {"q_heads": HEADS, "kv_heads": KV_HEADS, "head_dim": SIZE, "page": PAGE}
        gated = {"m": tokens, "n": INTER, "k": HIDDEN}
        return cls(
            norm=get("flashinfer.rmsnorm", hidden=HIDDEN, pdl=True),
            add_norm=get("fused_add_rmsnorm", {"rows": tokens}, hidden=HIDDEN),
            qkv=gemm(QUERIES + 2 * KEYS, HIDDEN),
            rotary=get("rotary_paged", {"tokens": tokens}, **heads),
            attention=get("attention", lengths, head_dim=SIZE, heads_per_kv=HEADS // KV_HEADS, causal=True),
            o=gemm(HIDDEN, QUERIES),
            gate_up=get("gemm_gated", gated, activation="silu") if fused else gemm(2 * INTER, HIDDEN),
            act_and_mul=None if fused else get("act_and_mul", {"rows": tokens}, width=INTER, activation="silu"),
            down=gemm(HIDDEN, INTER),
        )


class Precast:
    """The stack through kernels of a cache. All memory is allocated here, once."""

    def __init__(
        self, layers: Sequence[Layer], norm: torch.Tensor, tokens: int, *, fused: bool, early: bool = False
    ) -> None:
        self.layers, self.tokens = layers, tokens
        self.kernels = Kernels.find(tokens, fused=fused, early=early)
        self.norms = [*(layer.attention_norm for layer in layers[1:]), norm]

        def empty(*shape: int) -> torch.Tensor:
            return torch.empty(shape, dtype=DTYPE, device=DEVICE)

        self.residual, self.x = empty(tokens, HIDDEN), empty(tokens, HIDDEN)
        self.qkv, self.attended = empty(tokens, QUERIES + 2 * KEYS), empty(1, tokens, HEADS, SIZE)
        self.gate_up, self.inner = empty(tokens, 2 * INTER), empty(tokens, INTER)
        self.q = self.qkv[:, :QUERIES]  # queries are rotated where they are
        # The cache of each layer: here pages 0, 1, 2, .. in turn, so that attention may read it as one sequence.
        pages = -(-tokens // PAGE)
        self.caches = [(empty(pages, PAGE, KV_HEADS, SIZE), empty(pages, PAGE, KV_HEADS, SIZE)) for _ in layers]
        self.slots = torch.arange(tokens, device=DEVICE)
        self.positions = torch.arange(tokens, device=DEVICE)
        self.cos_sin = torch.cat(angles(tokens), dim=-1)

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """The final norm's result."""
        use = self.kernels
        torch.add(hidden, 0.0, out=self.residual)  # a kernel: the next one may begin early behind it, not behind a copy
        use.norm(self.residual, self.layers[0].attention_norm, self.x, self.tokens, EPS)
        for layer, (k_cache, v_cache), next_norm in zip(self.layers, self.caches, self.norms, strict=True):
            use.qkv(self.x, layer.qkv.T, self.qkv)
            use.rotary(
                qkv=self.qkv, cos_sin=self.cos_sin, positions=self.positions, slots=self.slots,
                q=self.q, k_cache=k_cache, v_cache=v_cache,
            )  # fmt: skip
            k, v = (cache.view(1, -1, KV_HEADS, SIZE)[:, : self.tokens] for cache in (k_cache, v_cache))
            q = self.q.unflatten(1, (HEADS, SIZE)).unsqueeze(0)
            use.attention(q=q, k=k, v=v, out=self.attended, softmax_scale=SCALE)
            use.o(self.attended.view(self.tokens, QUERIES), layer.o.T, self.x)
            use.add_norm(self.x, self.residual, layer.mlp_norm, self.x, EPS)
            if use.act_and_mul is None:
                use.gate_up(self.x, layer.gate_up.T, self.inner)
            else:
                use.gate_up(self.x, layer.gate_up.T, self.gate_up)
                use.act_and_mul(self.gate_up, self.inner)
            use.down(self.inner, layer.down.T, self.x)
            use.add_norm(self.x, self.residual, next_norm, self.x, EPS)
        return self.x


class Torch:
    """The same stack in torch: in bfloat16, or in float32 for the reference. ``backend`` is the one of its attention,
    else torch's choice."""

    def __init__(
        self,
        layers: Sequence[Layer],
        norm: torch.Tensor,
        tokens: int,
        *,
        compiled: str | None = None,
        backend: SDPBackend | None = None,
    ) -> None:
        self.layers, self.norm, self.dtype = layers, norm, norm.dtype
        cos, sin = angles(tokens)
        self.cos, self.sin = (torch.cat((part, part), dim=-1).to(self.dtype) for part in (cos, sin))
        self.layer: Callable[..., torch.Tensor] = one_layer
        self.backend = backend
        if compiled:
            torch.compiler.reset()  # it keeps at most eight sizes of a function, and runs others as they are
            self.layer = torch.compile(one_layer, mode=compiled, dynamic=False)

    def __call__(self, hidden: torch.Tensor) -> torch.Tensor:
        """The final norm's result."""
        with nullcontext() if self.backend is None else sdpa_kernel([self.backend]):
            return self.forward(hidden)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        x = hidden.to(self.dtype)
        for layer in self.layers:
            # The reference converts one layer at a time: all of them would take twice the memory of the model.
            weights = layer if layer.qkv.dtype == self.dtype else layer.float()
            x = self.layer(x, *vars(weights).values(), self.cos, self.sin)
        return functional.rms_norm(x, (HIDDEN,), self.norm, EPS)


def one_layer(
    x: torch.Tensor,
    qkv: torch.Tensor,
    o: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    attention_norm: torch.Tensor,
    mlp_norm: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
) -> torch.Tensor:
    """One layer in torch."""
    normal = functional.rms_norm(x, (HIDDEN,), attention_norm, EPS)
    q, k, v = functional.linear(normal, qkv).split((QUERIES, KEYS, KEYS), dim=-1)
    q, k, v = (part.unflatten(-1, (-1, SIZE)).transpose(0, 1).unsqueeze(0) for part in (q, k, v))
    q, k = rotated(q, cos, sin), rotated(k, cos, sin)
    attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=SCALE, enable_gqa=True)
    x = x + functional.linear(attended.squeeze(0).transpose(0, 1).flatten(1), o)
    gate, up = functional.linear(functional.rms_norm(x, (HIDDEN,), mlp_norm, EPS), gate_up).chunk(2, dim=-1)
    return x + functional.linear(functional.silu(gate) * up, down)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of (1, heads, tokens, size)."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def angles(tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of the first positions, in float32."""
    frequencies = THETA ** (-torch.arange(0, SIZE, 2, device=DEVICE, dtype=torch.float64) / SIZE)
    found = torch.arange(tokens, device=DEVICE, dtype=torch.float64).outer(frequencies)
    return found.cos().float(), found.sin().float()


def apart(found: torch.Tensor, expected: torch.Tensor) -> float:
    """The relative error of all values together."""
    return float((found.double() - expected.double()).norm() / expected.double().norm())


@torch.inference_mode()
def measure(layers: Sequence[Layer], norm: torch.Tensor, tokens: int, options: argparse.Namespace) -> dict[str, Any]:
    """One number of tokens: milliseconds, and errors against float32."""
    hidden = torch.randn(tokens, HIDDEN, device=DEVICE).to(DTYPE)
    fused = {"fused": (True,), "separate": (False,), "both": (True, False)}[options.mlp]
    sides: dict[str, Any] = {
        ("precast, fused" if each else "precast, separate"): Precast(
            layers, norm, tokens, fused=each, early=options.early_weights
        )
        for each in fused
    }
    sides |= {name: Torch(layers, norm, tokens, backend=backend) for name, backend in PEERS.items()}
    if options.compile:
        sides[COMPILED] = Torch(layers, norm, tokens, compiled=options.compile)
    replays, errors = {}, {}
    expected = Torch(layers, norm.float(), tokens)(hidden)
    for name, side in sides.items():
        try:
            replays[name], result = captured(lambda side=side: side(hidden))  # type: ignore[misc]
        except Exception as error:
            if name not in (CUDNN, COMPILED):
                raise
            print(f"{tokens:6d} tokens  {name:18s} left out: {(str(error).splitlines() or ['?'])[0]}", flush=True)
            continue
        replays[name]()
        torch.cuda.synchronize()
        errors[name] = apart(result, expected)
    found = milliseconds(replays, options.rounds)
    ours = min((name for name in found if name.startswith("precast")), key=lambda name: found[name])
    peer = min((name for name in found if name in PEERS), key=lambda name: found[name])
    row = {"tokens": tokens, "ms": found, "error": errors, "best": ours, "peer": peer}
    row["ratio"], row["ratio to torch's default"] = found[peer] / found[ours], found["torch"] / found[ours]
    if COMPILED in found:
        row["ratio to torch.compile"] = found[COMPILED] / found[ours]
    # Ours is to be as near to float32 as torch is; both round to bfloat16 after every kernel.
    row["right"] = all(error <= 1.25 * errors["torch"] + 1e-3 for error in errors.values())
    return row


def show(row: dict[str, Any]) -> None:
    """One line for each side."""
    for name, ms in row["ms"].items():
        mark = f"  {row['peer']} takes {row['ratio']:.3f} times as long" if name == row["best"] else ""
        error = f"error {row['error'][name]:.2e}"
        print(f"{row['tokens']:6d} tokens  {name:18s} {ms:9.4f} ms  {error}{mark}", flush=True)
    if not row["right"]:
        print(f"{row['tokens']:6d} tokens  WRONG: farther from float32 than torch's bfloat16 is", flush=True)


def figures(rows: Sequence[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """What is written of the sizes until now."""
    found = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "layers": options.layers, "rows": rows}
    found["torch.compile's mode"] = options.compile
    for key in ("ratio", "ratio to torch's default", "ratio to torch.compile"):
        ratios = [row[key] for row in rows if key in row]
        if ratios:
            found[f"geometric mean of the {key}"] = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
            found[f"least {key}"] = min(ratios)
    return found


def dry_run(options: argparse.Namespace) -> None:
    """Find and open every kernel, without a GPU."""
    for tokens in options.tokens:
        for fused in (True, False):
            kernels = Kernels.find(tokens, fused=fused, early=options.early_weights, target=options.target)
            for name, kernel in vars(kernels).items():
                if kernel is not None:
                    print(f"{tokens:6d} tokens  {name:12s} {kernel!r}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; 1 where a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    parser.add_argument("--rounds", type=int, default=20, help="how often each graph is timed")
    either = "gemm_gated, or gemm and act_and_mul; of both the quicker counts, as a service would find at its start"
    parser.add_argument("--mlp", choices=("fused", "separate", "both"), default="both", help=either)
    parser.add_argument("--early-weights", action="store_true", help="load weights while the kernel before runs")
    modes = ("max-autotune-no-cudagraphs", "default")
    compiling = "torch.compile beside it, in its best mode, which takes a minute or more for each size, or another one"
    parser.add_argument("--compile", nargs="?", choices=modes, const=modes[0], metavar="MODE", help=compiling)
    parser.add_argument("--json", metavar="FILE", help="write the figures there, after each size")
    parser.add_argument("--dry-run", action="store_true", help="find and open every kernel, launch none")
    parser.add_argument("--target", help="with --dry-run, for a machine without a GPU: such as sm_90a")
    options = parser.parse_args(arguments)
    if options.dry_run:
        dry_run(options)
        return 0
    torch.manual_seed(0)
    layers = [Layer.random() for _ in range(options.layers)]
    norm = (torch.rand(HIDDEN, device=DEVICE) + 0.5).to(DTYPE)
    rows = []
    for tokens in options.tokens:
        rows.append(measure(layers, norm, tokens, options))
        show(rows[-1])
        torch.cuda.empty_cache()
        if options.json:
            with open(options.json, "w") as file:
                json.dump(figures(rows, options), file, indent=1)
    for name, value in figures(rows, options).items():
        if name.startswith(("geometric", "least")):
            print(f"{name}: {value:.3f}")
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
