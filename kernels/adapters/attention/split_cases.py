"""Cases of ``attention_split``: those of ``attention``, with a result for each part of the keys.

A part has as many whole tiles of keys as it takes for all parts to cover them. Later parts may have none: then their
logarithm is minus infinity, and their values are not looked at by ``attention_combine``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from precast.kernels.adapters.attention import cases
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.loader.contract.format.config import Config

_TILE = 128  # keys
"""The only one that the library splits by on sm_100a."""


def problems(config: Config) -> list[Problem]:
    """Fewer tiles than parts, one each, several, and a long context."""
    group, _, _ = cases.sizes(config)
    few = max(1, 128 // group)
    shapes = [(1, 1, 40, 1, 2), (2, 1, 259, 1, 2), (2, min(few, 3), 1031, 1, 4), (3, few, 777, 2, 3)]
    shapes += [(8, 1, 16384, 2, 8)]
    return [{"batch": b, "queries": q, "keys": k, "kv_heads": h, "splits": s} for b, q, k, h, s in shapes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """The arguments of ``attention``, with room for the results of all parts."""
    import torch

    whole = {**config, "lse": True, "head_dim_v": None}
    values = cases.inputs(whole, {**problem, "padding": 0}, device=device, seed=seed)
    for name in ("out", "lse"):  # what an empty part leaves is as it was
        values[name] = torch.zeros((problem["splits"], *values[name].shape), device=device)
    return values


def parts(keys: int, splits: int) -> Sequence[range]:
    """The keys of each part.

    >>> parts(700, 4)
    [range(0, 256), range(256, 512), range(512, 700), range(700, 700)]
    """
    tiles = (keys + _TILE - 1) // _TILE
    each = (tiles + splits - 1) // splits * _TILE
    return [range(min(keys, i * each), min(keys, (i + 1) * each)) for i in range(splits)]


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """The definition in float64, a part of a key head of a sequence at a time."""
    import torch

    group, _, _ = cases.sizes(config)
    out, lse = torch.zeros_like(values["out"], dtype=torch.float64), torch.full_like(values["lse"], -torch.inf).double()
    whole = {**config, "head_dim_v": None}
    for rows, k, v in cases.sequences(whole, {**values, "out": out[0]}):
        for number, keys in enumerate(parts(len(k), len(out))):
            if not keys:
                continue
            for head in range(k.shape[1]):
                heads = slice(head * group, (head + 1) * group)
                sink = values["sink"][heads].double() if values["sink"] is not None and number == 0 else None
                q, some = values["q"][rows][:, heads].double(), slice(keys.start, keys.stop)
                combined, logs = cases.attend(
                    whole, values, q, k[some, head].double(), v[some, head].double(), sink, before=keys.start, of=len(k)
                )
                out[number][rows][:, heads] = combined
                (lse[number][heads, rows] if cases.packed(whole) else lse[number][rows][heads]).copy_(logs)
    return {"out": out, "lse": lse}


def tolerance(config: Config) -> Tolerance:
    """That of ``attention``: weights are rounded to the dtype of the inputs."""
    return cases.tolerance(config)
