"""What ``attention.py`` compares with: torch's attention of the same inputs, by every backend that may be the fastest.

Dense: torch by its own choice, by cuDNN, by FlashAttention. Packed: torch's functions for packed sequences by cuDNN and
by FlashAttention, its nested tensors by their own choice, and cuDNN on a padded batch, whose padding is not timed.

What cannot be captured in a CUDA graph spoils later captures of its process, so each of the packed ones is first tried
in a process of its own: ``python benchmarks/attention_peers.py NAME``.
"""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from attention_shapes import Shape, inputs

Run = Callable[[], Any]
_TRIED = {"model": "tried", "heads": 8, "size": 128, "causal": True, "batch": 4, "length": 256, "layout": "varlen"}


def peers(shape: Shape, values: dict[str, Any]) -> dict[str, Run]:
    """The alternatives, by name; one that does not take the shape raises when it is called."""
    return _dense(shape, values) if shape.layout == "dense" else _packed(shape, values)


def usable(runs: dict[str, Run], say: Callable[[str], None]) -> dict[str, Run]:
    """Those that run, and can be captured in a graph; why others are left out is reported.

    >>> usable({"one": lambda: 1, "none": lambda: 1 / 0}, print).keys()
      left out: none: ZeroDivisionError: division by zero
    dict_keys(['one'])
    """
    found = {}
    for name, run in runs.items():
        try:
            if ("packed" in name or "nested" in name) and (reason := obstacle(name)):
                raise RuntimeError(f"it cannot be captured in a CUDA graph: {reason}")
            run()
        except Exception as error:
            say(f"  left out: {name}: {type(error).__name__}: {str(error).splitlines()[0][:160]}")
        else:
            found[name] = run
    return found


@functools.cache
def obstacle(name: str) -> str:
    """What is raised where a peer of packed sequences is captured, in a process of its own; empty if nothing is."""
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, timeout=120)
    return (done.stderr.strip().splitlines() or ["?"])[-1] if done.returncode else ""


def attempt(name: str) -> None:
    """Capture one of the packed peers at a small shape, and replay it."""
    from precast.kernels.authoring.timing import timer

    shape = Shape(**_TRIED, group=1)
    timer.captured(peers(shape, inputs(shape))[name], "cuda")


def _dense(shape: Shape, values: dict[str, Any]) -> dict[str, Run]:
    q, k, v = (values[name].transpose(1, 2) for name in ("q", "k", "v"))
    return {
        "torch": _sdpa(shape, q, k, v, None),
        "torch by cuDNN": _sdpa(shape, q, k, v, "CUDNN_ATTENTION"),
        "torch by FlashAttention": _sdpa(shape, q, k, v, "FLASH_ATTENTION"),
    }


def _sdpa(shape: Shape, q: Any, k: Any, v: Any, backend: str | None) -> Run:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    options = {"is_causal": shape.causal, "scale": shape.size**-0.5, "enable_gqa": shape.group > 1}

    def own() -> Any:
        return scaled_dot_product_attention(q, k, v, **options)

    def by_name() -> Any:
        with sdpa_kernel([getattr(SDPBackend, str(backend))]):
            return own()

    return by_name if backend else own


def _packed(shape: Shape, values: dict[str, Any]) -> dict[str, Run]:
    import torch

    q, k, v, starts = (values[name] for name in ("q", "k", "v", "cu_seqlens_q"))
    longest, scale = max(shape.lengths), shape.size**-0.5
    aten = torch.ops.aten
    ends = (starts, starts, longest, longest)
    found: dict[str, Run] = {
        "torch packed by FlashAttention": lambda: aten._flash_attention_forward(
            q, k, v, *ends, 0.0, shape.causal, False, scale=scale
        ),
        "torch packed by cuDNN": lambda: aten._cudnn_attention_forward(
            q, k, v, None, *ends, False, 0.0, shape.causal, False, scale=scale
        ),
        "torch nested": _nested(shape, values),
    }
    if shape.causal:  # a query sees no key behind its own, so what is behind a sequence changes none of its results
        padded = [_padded(shape, values[name]).transpose(1, 2) for name in ("q", "k", "v")]
        found["torch padded by cuDNN"] = _sdpa(shape, *padded, "CUDNN_ATTENTION")
    return found


def _nested(shape: Shape, values: dict[str, Any]) -> Run:
    """Torch's tensors of sequences of different lengths; heads that share keys get copies, which are not timed."""
    import torch

    offsets = values["cu_seqlens_q"].long()
    limits = {"min_seqlen": min(shape.lengths), "max_seqlen": max(shape.lengths)}
    copies = [values["q"], *(values[name].repeat_interleave(shape.group, dim=1) for name in ("k", "v"))]
    nested = [torch.nested.nested_tensor_from_jagged(tensor, offsets=offsets, **limits) for tensor in copies]
    q, k, v = (tensor.transpose(1, 2) for tensor in nested)
    attention = torch.nn.functional.scaled_dot_product_attention
    return lambda: attention(q, k, v, is_causal=shape.causal, scale=shape.size**-0.5)


def _padded(shape: Shape, tensor: Any) -> Any:
    """A batch of sequences of the longest's length, with zeros behind the others."""
    found = tensor.new_zeros(shape.batch, max(shape.lengths), *tensor.shape[1:])
    for row, own in zip(found, tensor.split(shape.lengths), strict=True):
        row[: len(own)] = own
    return found


if __name__ == "__main__":
    attempt(sys.argv[1])
