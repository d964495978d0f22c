"""FlashAttention-4's adapter: what it declares, what it refuses, and what its kernels are once compiled."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from precast import loader
from precast.kernels import declaration_of
from precast.kernels.adapters.attention import cases
from precast.kernels.adapters.attention.forward import attention
from precast.kernels.adapters.attention.library import FLASH
from precast.kernels.adapters.quack.library import QUACK
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from precast.measure.checks.verify import verify
from tests.helpers.builds import kept_store, succeeded
from tests.helpers.gpu.machine_code import instructions

OBSTACLE = FLASH.obstacle() or QUACK.obstacle()
installed = pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE))
SM90, SM100 = Target.parse("sm_90a"), Target.parse("sm_100a")
torch.set_num_threads(1)  # the tensors are small: threads that wait for each other cost more than they save
BF16 = {"dtype": "bfloat16", "head_dim": 128}


def full(function: Any, **config: Any) -> dict[str, Any]:
    return complete(declaration_of(function).keys, config, op=function.__name__)


def small(function: Any) -> Any:
    """The declaration without the problem that is only for timing, and the longest before it."""
    declaration = declaration_of(function)
    problems = declaration.problems
    assert problems is not None
    return replace(declaration, problems=lambda config: problems(config)[:3])


def shapes() -> list[Any]:
    found = []
    for layout, causal, decode, group in itertools.product(cases.LAYOUTS, (True, False), (True, False), (1, 4)):
        config = {"dtype": "bfloat16", "head_dim": 64, "layout": layout, "causal": causal, "decode": decode}
        config |= {"heads_per_kv": group, "lse": True, "page": 16 if layout == "paged" else None}
        found.append(pytest.param(config, id=f"{layout}-{group}{'-causal' * causal}{'-decode' * decode}"))
    return found


def masked(config: dict[str, Any], v: dict[str, Any], q: Any, k: Any, value: Any) -> Any:
    """Torch's own attention over one sequence, ``[tokens, heads, size]``."""
    group, _, _ = cases.sizes(config)
    queries, keys = len(q), len(k)
    row, column = torch.arange(queries)[:, None] + keys - queries, torch.arange(keys)[None]
    seen = (column <= row) if config["causal"] else torch.ones(queries, keys, dtype=torch.bool)
    if config["window"]:
        seen = seen & (column >= row - v["window_left"]) & (column <= row + v["window_right"])
    k, value = (t.repeat_interleave(group, dim=1) for t in (k, value))
    q, k, value = (t.transpose(0, 1) for t in (q, k, value))
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~seen, -torch.inf).expand(len(q), *seen.shape)
    if v["sink"] is not None:  # one key more that all see, worth its sink to each head, and with nothing to give
        extra = v["sink"].to(q.dtype)[:, None, None].expand(len(q), queries, 1)
        mask = torch.cat([mask, extra], dim=-1)
        k, value = (torch.nn.functional.pad(t, (0, 0, 0, 1)) for t in (k, value))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, value, attn_mask=mask, scale=v["softmax_scale"])
    return out.transpose(0, 1)


@pytest.mark.parametrize("config", shapes())
def test_the_reference_agrees_with_torch(config: dict[str, Any]) -> None:
    for more in ({}, {"window": True, "sink": True}):
        config = full(attention, **{**config, **more})
        declaration = small(attention)
        for seed, problem in enumerate(declaration.problems(config)):
            values = declaration.inputs(config, problem, device="cpu", seed=seed)
            out = declaration.reference(config, values)["out"]
            assert out.shape == values["out"].shape and values["lse"].numel() * 64 == values["out"].numel()
            for place, k, v in cases.sequences(config, values):
                expected = masked(config, values, values["q"][place].double(), k.double(), v.double())
                torch.testing.assert_close(out[place], expected, rtol=1e-9, atol=1e-9)


def in_half() -> list[Any]:
    """Each layout with many queries of several heads and a causal mask, and with few of one head and none."""
    return [one for one in shapes() if (one.id or "").endswith(("-4-causal", "-1-decode"))]


@pytest.mark.slow
@pytest.mark.parametrize("config", in_half())
def test_verify_takes_what_torch_computes_in_half_precision_and_nothing_worse(config: dict[str, Any]) -> None:
    config = full(attention, **config)
    declaration = small(attention)

    def launch(spoil: float) -> Any:
        def run(*arguments: Any) -> None:
            values = dict(zip(names, arguments, strict=True))
            values["lse"].copy_(declaration.reference(config, values)["lse"])
            for place, k, v in cases.sequences(config, values):
                values["out"][place].copy_(masked(config, values, values["q"][place], k, v))
            values["out"][..., -1] += spoil

        return run

    names = list(declaration.inputs(config, declaration.problems(config)[0], device="cpu", seed=0))
    assert [str(c) for c in verify(launch(0.0), declaration, config, device="cpu") if not c.passed] == []
    wrong = {c.output for c in verify(launch(0.05), declaration, config, device="cpu") if not c.passed}
    assert wrong == {"out"}


@installed
@pytest.mark.parametrize(
    ("function", "config", "target", "reason"),
    [
        (attention, {"dtype": "float32", "head_dim": 64}, SM90, "use one of float16, bfloat16"),
        (attention, {**BF16, "head_dim": 100}, SM90, "use multiples of 8"),
        (attention, {**BF16, "head_dim": 264}, SM90, "sm_90a takes both up to 256"),
        (attention, {**BF16, "head_dim": 256}, SM100, "sm_100a takes both up to 128, or 192 and 128"),
        (attention, {**BF16, "heads_per_kv": 0}, SM90, "heads_per_kv is 0: use a number from 1 to 128"),
        (attention, {**BF16, "layout": "paged"}, SM90, "page is None: use one of 16"),
        (attention, {**BF16, "page": 16}, SM90, "leave it out, or use layout 'paged'"),
        (attention, {**BF16, "two_cta": True}, SM90, "two_cta is for sm_100a and sm_103a"),
        (attention, {**BF16, "two_cta": True, "causal": True}, SM100, "dense layout without causal"),
        (attention, {**BF16, "two_cta": True, "heads_per_kv": 5}, SM100, "heads_per_kv that divide 128"),
        (attention, {**BF16, "keys_tile": 72}, SM90, "keys_tile is 72: use one of 64, 80, 96"),
        (attention, {**BF16, "keys_tile": 48}, SM100, "keys_tile is 48: use one of 64, 96, 128"),
        (attention, {**BF16, "keys_tile": 64, "two_cta": True}, SM100, "leave one of them out"),
        (attention, {**BF16, "queries_tile": 192}, SM100, "queries_tile is for sm_90a, not sm_100a"),
        (attention, {**BF16, "queries_tile": 64}, SM90, "queries_tile is 64: use one of 128, 192, or leave it out"),
        (attention, {**BF16, "queries_tile": 192, "decode": True}, SM90, "many queries, and for the layouts dense"),
        (attention, {**BF16, "heads_per_kv": 7, "queries_tile": 192}, SM90, "does not divide: use pack false"),
        (attention, {**BF16, "resident": True, "layout": "cached"}, SM90, "and for the layouts dense and varlen"),
        (attention, {**BF16, "resident": True}, SM100, "resident is for sm_90a, not sm_100a"),
        (attention, {**BF16, "overlap": False}, SM100, "overlap false is for sm_90a, not sm_100a"),
        (attention, {**BF16, "keys_tile": 160, "stages": 3}, SM90, "bytes of shared memory, of 232448"),
        (attention, {**BF16, "queries_tile": 192, "keys_tile": 160}, SM90, "take 144 registers of a thread, of 136"),
        (attention, {**BF16, "queries_tile": 192, "keys_tile": 112, "resident": True}, SM90, "use keys_tile 128"),
        (attention, BF16, Target.parse("sm_80"), "attention is for sm_90a, sm_100a, sm_103a"),
    ],
)
def test_what_cannot_be_built_is_refused_while_planning(
    function: Any, config: dict[str, Any], target: Target, reason: str
) -> None:
    assert reason in str(declaration_of(function).refusal(full(function, **config), target))


PAGED = {**BF16, "causal": True, "layout": "paged"}
WINDOWS = {**BF16, "head_dim": 64, "heads_per_kv": 8, "layout": "varlen", "window": True, "sink": True}
# Each target has code of its own for windows. A dense kernel of the other target: test_families.
COMPILED: list[tuple[str, dict[str, Any]]] = [
    ("sm_90a", {**PAGED, "heads_per_kv": 5, "page": 128, "decode": True}),
    ("sm_90a", WINDOWS),
    ("sm_100a", {**WINDOWS, "lse": True}),
    ("sm_100a", {**BF16, "dtype": "float16", "heads_per_kv": 4, "causal": True, "layout": "cached"}),
    (
        "sm_100a",
        {**PAGED, "heads_per_kv": 4, "page": 16, "keys_tile": 64},
    ),  # with FlashAttention's own choice it spills
]


def of_target(target: str) -> list[dict[str, Any]]:
    return [config for each, config in COMPILED if each == target]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every config above, compiled in real workers."""
    folder = tmp_path_factory.mktemp("attention")
    entries = [
        {
            "kernel": "attention",
            "targets": [target],
            "config": {key: value for key, value in config.items() if key != "keys_tile"},
            "tuned": {"keys_tile": [config.get("keys_tile")]},
        }
        for target, config in COMPILED
    ]
    (folder / "attention.yaml").write_text(json.dumps({"version": 1, "name": "attention", "kernels": entries}))
    succeeded("build", folder / "attention.yaml", "-o", folder / "cache", "--store", kept_store(), "-j", 1)
    return folder / "cache"


ALWAYS = ["q", "k", "v", "out", "lse", "softmax_scale", "cu_seqlens_q", "cu_seqlens_k", "seqused_q", "seqused_k"]
ALWAYS += ["page_table", "window_left", "window_right", "sink"]
LATER = {
    "sm_90a": ["blocksparse_tensors", "aux_data", "mCuTotalMBlocks", "mCuTotalSplitsMBlocks"],
    "sm_100a": [
        "descale_tensors", "blocksparse_tensors", "aux_data", "num_splits_dynamic_ptr", "tile_count_semaphore",
        "virtual_batch_idx_ptr", "num_nheads_in_l2_ptr", "mCuTotalMBlocks", "mCuTotalSplitsMBlocks",
        "mBlocksToBatchIdx", "max_seqlen_q",
    ],
}  # fmt: skip


@installed
@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_every_kind_compiles_without_a_gpu(built: Path, target: str, use: Callable[[Path], None]) -> None:
    use(built)
    for config in of_target(target):
        kernel = loader.get("attention", config, target=target)
        assert all((r.stack, r.local) == (0, 0) for r in kernel.artifact.resources), f"{config} spills"
        assert [a.name for a in kernel.signature.passed] == ALWAYS + LATER[target]
        values = cases.inputs(
            kernel.config,
            {"batch": 2, "queries": 1, "keys": 9, "kv_heads": 1, "padding": 0},
            device="cpu",
            seed=0,
        )
        taken = {a.name for a in kernel.signature.passed if not a.always_none}
        given = {name for name, value in values.items() if value is not None}
        assert taken == given - ({"max_seqlen_q"} if target == "sm_90a" else set())


@installed
@pytest.mark.slow
@pytest.mark.parametrize(("target", "instruction"), [("sm_90a", "HGMMA"), ("sm_100a", "UTCHMMA")])
def test_the_tensor_cores_of_the_target_are_used(
    built: Path, use: Callable[[Path], None], tmp_path: Path, target: str, instruction: str
) -> None:
    use(built)
    for config in of_target(target):
        code = instructions(built, loader.get("attention", config, target=target).artifact, tmp_path)
        assert any(instruction in name for name in code), f"{config} uses no {instruction}"
