"""``flashinfer.mla_decode``: attention of one new token to a latent of 512 and 64 rotated numbers, in pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from precast.kernels import configs
from precast.kernels.authoring.composition import Part
from precast.kernels.authoring.declare import Problem, Tolerance
from precast.kernels.authoring.dtypes import to_torch
from precast.loader.contract.format.config import Config
from precast.loader.contract.format.target import Target

_FLOAT = 4  # bytes
_TILE = 128  # keys


def part(config: Config, target: Target) -> Part | None:
    """One sequence with keys in one split and in two; None for what the manifests do not have."""
    plain = not config["is_var_q"] and not config["is_var_split_kv"] and not config["enable_dcp"]
    if not plain or config["is_workspace_size_zero"]:
        return None
    return Part(
        problems=[{"batch": 1, "keys": keys, "splits": splits} for keys, splits in ((1, 1), (200, 1), (300, 2))],
        inputs=inputs,
        outputs=("o", "lse"),
        workspace=("workspace",),
        reference=reference,
        tolerance=tolerance,
    )


def inputs(config: Config, problem: Problem, *, device: Any, seed: int) -> dict[str, Any]:
    """Queries, and pages in any order, of which the last one is not full."""
    import torch

    batch, keys, splits = problem["batch"], problem["keys"], problem["splits"]
    heads, tokens = configs.integer(config, "num_heads"), configs.integer(config, "seq_len_q")
    latent, rotated = configs.integer(config, "kv_lora_rank"), configs.integer(config, "qk_rope_head_dim")
    size, dtype = configs.integer(config, "page_size"), to_torch(str(config["torch_dtype"]))
    pages = -(-keys // _TILE) * _TILE // size  # the library's tables have whole tiles of keys
    draw = torch.Generator(device="cpu").manual_seed(seed)
    query = torch.randn(batch, tokens, heads, latent + rotated, generator=draw).to(dtype).to(device)
    pool = torch.randn(batch * pages + 1, size, latent + rotated, generator=draw).to(dtype).to(device)
    order = torch.randperm(batch * pages + 1, generator=draw)[: batch * pages].to(torch.int32)
    room = batch * tokens * heads * splits * (latent + 1) * _FLOAT
    return {
        "q_latent": query[..., :latent],
        "q_rope": query[..., latent:],
        "c_latent": pool[..., :latent],
        "c_rope": pool[..., latent:],
        "page_table": order.view(batch, pages).to(device),
        "o": torch.zeros(batch, tokens, heads, latent, dtype=to_torch(str(config["torch_out_dtype"])), device=device),
        "lse": torch.zeros(batch, tokens, heads, device=device),
        "workspace": torch.zeros(room, dtype=torch.int8, device=device),
        "split_kv": splits,
        "cache_seqs": torch.full((batch,), keys, dtype=torch.int32, device=device),
        "cp_rank": 0,
        "softmax_scale": (latent // 4 + rotated) ** -0.5,
        "output_scale": 1.0,
        "lse_scale": math.log(2.0),
    }


def reference(config: Config, values: Mapping[str, Any]) -> dict[str, Any]:
    """In float64: scores of latent and rotated numbers, and the latent is what is summed; natural logarithms."""
    import torch

    out, logarithms = values["o"].double(), values["lse"].double()
    for number, (pages, keys) in enumerate(zip(values["page_table"], values["cache_seqs"].tolist(), strict=True)):
        latent, rotated = (values[name][pages.long()].flatten(0, 1)[:keys].double() for name in ("c_latent", "c_rope"))
        scores = values["q_latent"][number].double() @ latent.T + values["q_rope"][number].double() @ rotated.T
        scores = scores * values["softmax_scale"]
        out[number] = scores.softmax(dim=-1) @ latent * values["output_scale"]
        logarithms[number] = torch.logsumexp(scores, dim=-1) * math.log2(math.e) * values["lse_scale"]
    return {"o": out, "lse": logarithms}


def tolerance(config: Config) -> Tolerance:
    """Probabilities in the dtype of the latent, whose errors are not all of one sign."""
    error = 2.0**-4 if str(config["torch_dtype"]).startswith("float8") else 2.0**-8
    return Tolerance(rtol=error, atol=error)
