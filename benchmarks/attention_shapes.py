"""The shapes of attention that ``attention.py`` times: what they are, their inputs, and what a few rows must be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHAPES = Path(__file__).with_name("attention-unseen.yaml")
LENGTHS = (4, 2, 6, 3, 5, 1, 7, 4)  # quarters of the mean length of packed sequences
ROWS = 64  # that are compared, of some heads
UNIT = 2.0**-8  # of bfloat16


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """One shape, and whose it is."""

    model: str
    heads: int
    group: int
    size: int
    causal: bool
    batch: int
    length: int
    size_v: int = 0
    layout: str = "dense"

    @property
    def values(self) -> int:
        """The size of a value."""
        return self.size_v or self.size

    @property
    def lengths(self) -> tuple[int, ...]:
        """The length of each sequence.

        >>> Shape(model="", heads=1, group=1, size=8, causal=True, batch=3, length=8, layout="varlen").lengths
        (8, 4, 12)
        """
        if self.layout == "dense":
            return (self.length,) * self.batch
        return tuple(self.length * LENGTHS[i % len(LENGTHS)] // 4 for i in range(self.batch))

    @property
    def operations(self) -> int:
        """Floating-point operations: of two products, for each query and each key that it sees.

        >>> Shape(model="", heads=2, group=1, size=64, causal=True, batch=1, length=3).operations
        3072
        """
        pairs = sum(n * (n + 1) // 2 if self.causal else n * n for n in self.lengths)
        return 2 * pairs * self.heads * (self.size + self.values)

    @property
    def problem(self) -> dict[str, int]:
        """What the loader chooses by."""
        longest = max(self.lengths)
        return {"batch": self.batch, "queries": longest, "keys": longest, "kv_heads": self.heads // self.group}

    def __str__(self) -> str:
        sizes = f"{self.size}" if self.values == self.size else f"{self.size}/{self.values}"
        heads = f"{self.heads}/{self.heads // self.group}"
        mask = "causal" if self.causal else "full"
        return f"{self.model:<15}{self.batch:>3} x {self.length:<6}{heads:>6} x {sizes:<8}{mask:<7}{self.layout:<7}"


def shapes(path: Path = SHAPES) -> list[Shape]:
    """The shapes of a file.

    >>> len(shapes()) >= 16
    True
    """
    import yaml

    return [Shape(**shape) for shape in yaml.safe_load(path.read_text())["shapes"]]


def config(shape: Shape) -> dict[str, Any]:
    """What ``loader.get`` is called with.

    >>> config(shapes()[0])
    {'dtype': 'bfloat16', 'head_dim': 128, 'heads_per_kv': 4, 'causal': True, 'layout': 'dense'}
    """
    found: dict[str, Any] = {"dtype": "bfloat16", "head_dim": shape.size, "heads_per_kv": shape.group}
    found |= {"causal": shape.causal, "layout": shape.layout}
    return found | ({"head_dim_v": shape.size_v} if shape.size_v else {})


def inputs(shape: Shape, device: str = "cuda") -> dict[str, Any]:
    """The arguments of a call, by name, with random numbers."""
    import torch

    tokens = (shape.batch, shape.length) if shape.layout == "dense" else (sum(shape.lengths),)
    kv_heads = shape.heads // shape.group
    generator = torch.Generator(device).manual_seed(0)  # of its own: a failed capture would hold torch's

    def make(heads: int, size: int) -> Any:
        return torch.randn(*tokens, heads, size, device=device, dtype=torch.bfloat16, generator=generator)

    found = {"q": make(shape.heads, shape.size), "k": make(kv_heads, shape.size), "v": make(kv_heads, shape.values)}
    found |= {"out": torch.empty_like(make(shape.heads, shape.values)), "softmax_scale": shape.size**-0.5}
    if shape.layout != "dense":
        starts = torch.tensor([0, *shape.lengths], device=device).cumsum(0).to(torch.int32)
        found |= {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
    return found


def logarithms(shape: Shape, device: str = "cuda") -> Any:
    """Where a kernel with ``lse`` writes."""
    import torch

    dense = (shape.batch, shape.heads, shape.length)
    sizes = dense if shape.layout == "dense" else (shape.heads, sum(shape.lengths))
    return torch.empty(sizes, device=device, dtype=torch.float32)


def sample(shape: Shape, values: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Some rows of a result, and what they are in float32: of the first and the last sequence and head."""
    import torch

    starts = [sum(shape.lengths[:i]) for i in range(shape.batch)]
    for i, head in ((0, shape.heads - 1), (shape.batch - 1, 0)):
        mine = i if shape.layout == "dense" else slice(starts[i], starts[i] + shape.lengths[i])
        q, k, v, out = (values[name][mine] for name in ("q", "k", "v", "out"))
        rows = torch.linspace(0, len(q) - 1, min(ROWS, len(q)), device=q.device).long()
        scores = q[rows, head].float() @ k[:, head // shape.group].float().T * values["softmax_scale"]
        if shape.causal:
            columns = torch.arange(len(k), device=q.device)
            scores = scores.masked_fill(columns > rows[:, None], -torch.inf)
        yield out[rows, head].float(), scores.softmax(dim=-1) @ v[:, head // shape.group].float()


def wrong(shape: Shape, values: dict[str, Any]) -> str | None:
    """How the result differs from float32 in the rows that are compared, or None."""
    for found, expected in sample(shape, values):
        far = ~((found - expected).abs() <= 2 * UNIT + UNIT * expected.abs())
        if far.any():
            return f"{int(far.sum())} of {far.numel()} elements are wrong, by up to {(found - expected).abs().max()}"
    return None
