"""Cases of attention: random sequences in each of the layouts, and the reference that is computed from its definition.

Layouts: ``dense`` has ``q`` ``[batch, queries, heads, size]`` and ``k``, ``v`` likewise; ``cached`` is the same with
fewer keys in use than there is room for; ``varlen`` packs sequences of different lengths, ``[tokens, heads, size]``;
``paged`` packs the queries and has the keys in pages of one size, wherever the page table says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring import tensors
from precast.kernels.authoring.declare import Cost, Problem, Tolerance
from precast.loader.contract.format.config import Config

LAYOUTS = ("dense", "cached", "varlen", "paged")
_PEAKED = 4.0  # a spread of scores with which few keys dominate, so that results are not all near zero
_LEFT, _RIGHT = 127, 64


def packed(config: Config) -> bool:
    """Whether the queries of a batch are packed."""
    return config["layout"] in ("varlen", "paged")


def sizes(config: Config) -> tuple[int, int, int]:
    """Heads for each key head, and the sizes of a key and of a value."""
    size = configs.integer(config, "head_dim")
    size_v = size if config.get("head_dim_v") is None else configs.integer(config, "head_dim_v")
    return configs.integer(config, "heads_per_kv"), size, size_v


def problems(config: Config) -> list[Problem]:
    """One query, odd lengths, padded heads, and the sizes of a model last; few queries in each where it decodes."""
    group, _, _ = sizes(config)
    heads = max(1, 16 // group)
    if config["decode"]:
        few = max(1, 128 // group)
        shapes = [(1, 1, 1, 1, 0), (3, 1, 129, 2, 8), (5, min(few, 3), 1031, 1, 0), (2, few, 777, 2, 24)]
        shapes += [(64, 1, 4096, heads, 0)]
    else:
        shapes = [(1, 1, 1, 1, 0), (2, 113, 113, 2, 8), (3, 67, 259, 1, 24), (2, 513, 1031, 2, 0)]
        shapes += [(4, 8192, 8192, heads, 0)]
    return [{"batch": b, "queries": q, "keys": k, "kv_heads": h, "padding": p} for b, q, k, h, p in shapes]


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Every argument that a variant may have, by name; None where this config is without it."""
    import torch

    group, size, size_v = sizes(config)
    heads, layout = problem["kv_heads"], config["layout"]
    lengths_q, lengths_k = lengths(config, problem)

    def starts(counts: list[int]) -> Any:
        return torch.tensor([0, *counts], device=device).cumsum(0).to(torch.int32)

    tokens = (sum(lengths_q),) if packed(config) else (problem["batch"], problem["queries"])
    cache_shape: tuple[int, ...] = (problem["batch"], problem["keys"])
    table = None
    if layout == "varlen":
        cache_shape = (sum(lengths_k),)
    elif layout == "paged":
        page = configs.integer(config, "page")
        most = -(-problem["keys"] // page)
        table = _pages(problem["batch"], most, device, seed)
        cache_shape = (table.numel() + 3, page)
    window = (_LEFT, 0 if config["causal"] else _RIGHT) if config["window"] else (None, None)

    def make(shape: tuple[int, ...], count: int, width: int, seed: int | None) -> Any:
        return strided((*shape, count, width), str(config["dtype"]), problem["padding"], device=device, seed=seed)

    lse_shape = (group * heads, *tokens) if packed(config) else (problem["batch"], group * heads, problem["queries"])
    return {
        "q": make(tokens, group * heads, size, seed).mul_(_PEAKED),
        "k": make(cache_shape, heads, size, seed + 1),
        "v": make(cache_shape, heads, size_v, seed + 2),
        "out": make(tokens, group * heads, size_v, None),
        "lse": tensors.empty(lse_shape, "float32", device=device) if config["lse"] else None,
        "softmax_scale": size**-0.5,
        "cu_seqlens_q": starts(lengths_q) if packed(config) else None,
        "cu_seqlens_k": starts(lengths_k) if layout == "varlen" else None,
        "seqused_k": starts(lengths_k).diff().to(torch.int32) if layout in ("cached", "paged") else None,
        "page_table": table,
        "window_left": window[0],
        "window_right": window[1],
        "sink": tensors.normal((group * heads,), str(config["dtype"]), device=device, seed=seed + 3)
        if config["sink"]
        else None,
        "max_seqlen_q": max(lengths_q),
    }


def lengths(config: Config, problem: Problem) -> tuple[list[int], list[int]]:
    """How many queries and keys each sequence has: those of the problem, and fewer where the layout allows.

    >>> lengths({"layout": "varlen"}, {"batch": 3, "queries": 67, "keys": 259})
    ([67, 56, 45], [259, 226, 193])
    """
    batch, queries, keys = problem["batch"], problem["queries"], problem["keys"]
    if config["layout"] == "dense":
        return [queries] * batch, [keys] * batch
    lengths_q = (
        [max(1, queries - i % 6 * (queries // 6)) for i in range(batch)] if packed(config) else [queries] * batch
    )
    return lengths_q, [max(lengths_q[i], keys - (i * (keys // 8 + 1)) % max(1, keys // 2)) for i in range(batch)]


def _pages(batch: int, most: int, device: Any, seed: int) -> Any:
    import torch

    generator = torch.Generator(device=device).manual_seed(seed + 9)
    order = torch.randperm(batch * most + 3, generator=generator, device=device)
    return order[: batch * most].view(batch, most).to(torch.int32)


def strided(shape: tuple[int, ...], dtype: str, padding: int, *, device: Any, seed: int | None) -> Any:
    """A tensor with ``padding`` elements between its rows: normally distributed, or to be written without a seed."""
    full = (*shape[:-1], shape[-1] + padding)
    storage = (
        tensors.empty(full, dtype, device=device)
        if seed is None
        else tensors.normal(full, dtype, device=device, seed=seed)
    )
    return storage[..., : shape[-1]]


def reference(config: Config, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Attention in float64, a sequence and a key head at a time."""
    import torch

    out, lse = (torch.zeros_like(inputs["out"], dtype=torch.float64), None)
    if inputs["lse"] is not None:
        lse = torch.zeros_like(inputs["lse"], dtype=torch.float64)
    group, _, _ = sizes(config)
    for rows, k, v in sequences(config, inputs):
        q, mine = inputs["q"][rows], out[rows]
        for head in range(k.shape[1]):
            heads = slice(head * group, (head + 1) * group)
            sink = None if inputs["sink"] is None else inputs["sink"][heads].double()
            values, logs = attend(config, inputs, q[:, heads].double(), k[:, head].double(), v[:, head].double(), sink)
            mine[:, heads] = values
            if lse is not None:
                (lse[heads, rows] if packed(config) else lse[rows][heads]).copy_(logs)
    return {"out": out, "lse": lse}


def sequences(config: Config, inputs: Mapping[str, Any]) -> Iterator[tuple[Any, Any, Any]]:
    """For each sequence, what selects its queries, and its keys and values."""
    k, v = inputs["k"], inputs["v"]
    used = [k.shape[1]] * len(inputs["q"]) if inputs["seqused_k"] is None else inputs["seqused_k"].tolist()
    starts_q = inputs["cu_seqlens_q"].tolist() if packed(config) else range(len(inputs["q"]) + 1)
    starts_k = inputs["cu_seqlens_k"].tolist() if config["layout"] == "varlen" else None
    for i in range(len(starts_q) - 1):
        rows = slice(starts_q[i], starts_q[i + 1]) if packed(config) else i
        if starts_k is not None:
            mine = slice(starts_k[i], starts_k[i + 1])
            yield rows, k[mine], v[mine]
        elif inputs["page_table"] is not None:
            pages = inputs["page_table"][i].long()
            yield rows, *(t[pages].flatten(0, 1)[: used[i]] for t in (k, v))
        else:
            yield rows, *(t[i][: used[i]] for t in (k, v))


def attend(
    config: Config,
    inputs: Mapping[str, Any],
    q: Any,
    k: Any,
    v: Any,
    sink: Any,
) -> tuple[Any, Any]:
    """Values ``[queries, heads, size]`` and logarithms ``[heads, queries]`` of one key head of one sequence.

    A query that sees no key has zeros.
    """
    import torch

    queries, keys = len(q), len(k)
    row = torch.arange(queries, device=q.device).unsqueeze(1) + (keys - queries)
    column = torch.arange(keys, device=q.device)
    hidden = torch.zeros((queries, keys), dtype=torch.bool, device=q.device)
    if config["causal"]:
        hidden |= column > row
    if config["window"]:
        hidden |= (column < row - inputs["window_left"]) | (column > row + inputs["window_right"])
    values, logs = [], []
    for i in range(q.shape[1]):
        scores = (q[:, i] @ k.T).mul_(inputs["softmax_scale"]).masked_fill_(hidden, -torch.inf)
        lse = scores.logsumexp(dim=-1)
        if sink is not None:
            lse = torch.logaddexp(lse, sink[i])
        values.append(scores.sub_(lse.unsqueeze(1)).exp_().nan_to_num_(nan=0.0) @ v)
        logs.append(lse)
    return torch.stack(values, dim=1), torch.stack(logs)


def peer(config: Config, inputs: Mapping[str, Any]) -> dict[str, Callable[[], Any]]:
    """torch's own attention, by the backend that it chooses and by cuDNN's, of batches without a window or sinks; it
    aligns a causal mask to the first key."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    if config["layout"] != "dense" or config["window"] or config["sink"]:
        return {}
    q, k, v = (inputs[name].transpose(1, 2) for name in ("q", "k", "v"))
    if config["causal"] and q.shape[2] != k.shape[2]:
        return {}
    causal, scale, grouped = bool(config["causal"]), inputs["softmax_scale"], q.shape[1] != k.shape[1]

    def torch_attention() -> Any:
        result = scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped)
        return result.transpose(1, 2)

    def cudnn_attention() -> Any:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return torch_attention()

    by_cudnn = {"torch attention by cuDNN": cudnn_attention} if q.is_cuda else {}
    return {"torch attention": torch_attention, **by_cudnn}


def tolerance(config: Config) -> Tolerance:
    """Weights are rounded to the stored dtype before they multiply the values, as in torch's flash attention.

    Each may be off by half a unit in its last place, and the products have both signs and may cancel.
    """
    unit = 2.0**-8 if config["dtype"] == "bfloat16" else 2.0**-11
    return Tolerance(rtol=unit, atol=2.0 * unit)


def cost(config: Config, problem: Problem) -> Cost:
    """Two products for every pair of a query and a key that it sees; every tensor read or written once."""
    group, size, size_v = sizes(config)
    heads, lengths_ = group * problem["kv_heads"], zip(*lengths(config, problem), strict=True)
    pairs = tokens = keys = 0
    for queries, key_count in lengths_:
        hidden = queries * (queries - 1) // 2 if config["causal"] else 0
        pairs, tokens, keys = pairs + queries * key_count - hidden, tokens + queries, keys + key_count
    memory = tokens * heads * (size + size_v) + keys * problem["kv_heads"] * (size + size_v)
    return Cost(2 * pairs * heads * (size + size_v), 2 * memory)
