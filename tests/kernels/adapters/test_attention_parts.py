"""The parts of ``attention_bwd`` and of ``attention_split``: what is verified of each adds up to torch's results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast.kernels.adapters.attention import cases, split_cases
from precast.kernels.adapters.attention.accumulators import Order, places
from precast.kernels.adapters.attention.backward import attention_bwd
from precast.kernels.adapters.attention.blocks import Blocks
from precast.kernels.adapters.attention.forward import attention_split
from precast.kernels.adapters.attention.sequences import Sequences
from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.schema import keys_of
from precast.kernels.authoring.verification.verify import verify
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from tests.helpers.builds import kept_store, precast

torch = pytest.importorskip("torch")

TARGETS = ("sm_90a", "sm_100a")
SMALL = {"batch": 2, "tokens": 150, "kv_heads": 2}


def full(**config: Any) -> dict[str, Any]:
    return complete(keys_of(attention_bwd), {"dtype": "bfloat16", "causal": True, **config}, op="attention_bwd")


def part(name: str, config: Mapping[str, Any], target: str) -> Declaration:
    return declaration_of(attention_bwd).of_part(name, config, Target.parse(target))


@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("width", [64, 128])
@pytest.mark.parametrize("order", ["wgmma", "tcgen05", "pair"])
def test_a_block_holds_each_number_once(order: Order, width: int, rows: int) -> None:
    found = places(order, rows, width)
    assert found.shape == (rows, width) and sorted(found.flatten().tolist()) == list(range(rows * width))


@pytest.mark.parametrize(
    ("target", "size", "pair"), [("sm_90a", 64, False), ("sm_100a", 64, False), ("sm_100a", 128, True)]
)
@pytest.mark.parametrize("layout", ["dense", "varlen"])
@pytest.mark.parametrize("group", [1, 4])
def test_the_parts_together_give_the_gradients_of_torch(
    group: int, layout: str, target: str, size: int, pair: bool
) -> None:
    config = full(head_dim=size, heads_per_kv=group, layout=layout, two_cta=pair)
    main, dq, dkv = (part(name, config, target) for name in ("main", "dq", "dkv"))
    assert main.inputs and main.reference and dq.reference and dkv.reference
    values = main.inputs(config, SMALL, device="cpu", seed=1)
    found = main.reference(config, values)
    some = Sequences(lengths=values["lengths"], packed=layout == "varlen", block=128)
    given = {"lengths": values["lengths"], "cu_seqlens_q": values["cu_seqlens_q"]}

    def converted(declared: Declaration, accumulator: Any, like: Any, scale: float) -> Any:
        assert declared.reference
        return declared.reference(config, {**given, "accum": accumulator, "dq": like, "scale": scale})["dq"]

    scale = values["softmax_scale"]
    gradients = {"q": converted(dq, found["accum"], values["q"], scale)}
    for name, times in (("k", scale), ("v", 1.0)):
        mine = found[f"d{name}"]
        gradients[name] = mine if group == 1 else converted(dkv, mine, values[name], times)
    for i in range(len(some.lengths)):
        own = {n: some.of_tokens(values[n], i).double().transpose(0, 1).requires_grad_() for n in ("q", "k", "v")}
        keys = {n: own[n].repeat_interleave(group, dim=0) for n in ("k", "v")}
        out = torch.nn.functional.scaled_dot_product_attention(own["q"], keys["k"], keys["v"], is_causal=True)
        dout = some.of_tokens(values["dout"], i).double().transpose(0, 1)
        for name, right in zip("qkv", torch.autograd.grad(out, list(own.values()), dout), strict=True):
            mine = some.of_tokens(gradients[name], i).transpose(0, 1)
            torch.testing.assert_close(mine, right, rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")
        logs, sums = (some.kept(values[name], i)[:, : some.lengths[i]].double() for name in ("lse", "dpsum"))
        torch.testing.assert_close(sums, (out * dout).sum(-1).detach(), rtol=1e-5, atol=1e-5)
        assert bool(logs.isfinite().all()) and bool((some.kept(values["lse"], i)[:, some.lengths[i] :] > 0).all())


@pytest.mark.parametrize("name", ["prepare", "main", "dq", "dkv"])
@pytest.mark.parametrize("layout", ["dense", "varlen"])
@pytest.mark.parametrize("target", TARGETS)
def test_a_right_part_passes_and_a_wrong_number_is_found(target: str, layout: str, name: str) -> None:
    config = full(head_dim=64, heads_per_kv=2, layout=layout, deterministic=target == "sm_100a")
    declared = replace(part(name, config, target), problems=lambda config: [{"batch": 2, "tokens": 37, "kv_heads": 1}])
    assert declared.verifiable and declared.inputs and declared.problems
    made = declared.inputs(config, declared.problems(config)[0], device="cpu", seed=0)

    def stand_in(spoil: str) -> Callable[..., None]:
        def launch(*arguments: Any) -> None:
            values = dict(zip(made, arguments, strict=True))
            assert declared.reference
            for output, result in declared.reference(config, values).items():
                if values[output] is not None:
                    values[output].copy_(result)
                    if output == spoil:
                        first = values[output].flatten()[:1]
                        values[output].view(-1)[:1] = first + 1 if name == "main" else first * 1.1 + 0.1

        return launch

    assert not [str(c) for c in verify(stand_in(""), declared, config, device="cpu") if not c.passed]
    for output in (one for one in declared.outputs if made[one] is not None):
        wrong = {c.output for c in verify(stand_in(output), declared, config, device="cpu") if not c.passed}
        assert wrong == {output}


def test_what_accumulators_of_unknown_order_have_is_not_verified() -> None:
    assert not part("main", full(head_dim=128, causal=False), "sm_90a").verifiable
    assert not part("other", full(head_dim=64), "sm_90a").verifiable


def test_blocks_of_queries() -> None:
    found = [Blocks.of(full(head_dim=d, causal=c), m) for d in (64, 128) for c in (False, True) for m in (9, 10)]
    assert [blocks.queries for blocks in found] == [128, 128, 128, 128, 80, 128, 64, 128]
    assert {blocks.keys for blocks in found} == {128}


def test_sequences_whose_lengths_end_in_a_block_have_turns_of_their_own() -> None:
    one, two = (Blocks.of(full(head_dim=128, two_cta=pair), 10) for pair in (False, True))
    assert [one.turns(n, causal=True) for n in (1, 128, 129, 257)] == [[1], [1], [1, 2], [1, 2, 3]]
    assert [two.turns(n, causal=True) for n in (128, 257)] == [[1], [1, 1, 2]]
    assert [b.turns(300, causal=False) for b in (one, two)] == [[3, 3, 3], [2, 2, 2]]


@pytest.mark.parametrize("layout", ["cached", "paged"])
def test_parts_of_a_split_combine_to_the_whole(layout: str) -> None:
    keys = keys_of(attention_split)
    given = {"dtype": "bfloat16", "head_dim": 64, "heads_per_kv": 4, "causal": True, "sink": True, "layout": layout}
    config = complete(keys, {**given, **({"page": 16} if layout == "paged" else {})}, op="attention_split")
    declared = declaration_of(attention_split)
    assert declared.verifiable and declared.inputs and declared.reference and declared.problems
    for problem in declared.problems(config)[:-1]:
        values = declared.inputs(config, problem, device="cpu", seed=3)
        found = declared.reference(config, values)
        one = {**values, "out": values["out"][0], "lse": values["lse"][0]}
        whole = cases.reference({**config, "head_dim_v": None}, one)
        weights = found["lse"].softmax(0).nan_to_num(0.0)
        combined = (found["out"] * weights.movedim(-1, -2 if layout == "cached" else 1).unsqueeze(-1)).sum(0)
        torch.testing.assert_close(found["lse"].logsumexp(0), whole["lse"], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(combined, whole["out"], rtol=1e-9, atol=1e-9)


def test_a_part_of_a_split_has_whole_tiles() -> None:
    assert [len(keys) for keys in split_cases.parts(1031, 4)] == [384, 384, 263, 0]


@pytest.mark.slow
def test_accumulators_are_in_the_order_of_the_library(tmp_path: Path) -> None:
    """All parts of one backward pass of sm_90a and one of a pair of sm_100a, as the library compiles them, emulated."""
    manifest = "version: 1\nname: backward\ntargets: [sm_90a, sm_100a]\nkernels:\n"
    for target, pair in (("sm_90a", "false"), ("sm_100a", "true")):
        manifest += "  - kernel: attention_bwd\n    parts: [prepare, main, dq, dkv]\n"
        manifest += (
            f"    targets: [{target}]\n    config: {{dtype: bfloat16, head_dim: 128, heads_per_kv: 2, causal: true, "
        )
        manifest += f"deterministic: true, two_cta: {pair}}}\n"
    (tmp_path / "backward.yaml").write_text(manifest)
    cache, store = tmp_path / "cache", kept_store()
    done = precast(store, "build", tmp_path / "backward.yaml", "-o", cache, "--keep", "ptx")
    assert done.returncode == 0, done.stderr
    sizes = "batch=2,tokens=150,kv_heads=1"
    done = precast(store, "verify", cache, "--emulate", "--json", "--problem", sizes)
    report = json.loads(done.stdout)
    assert report["smallest"] is None and not report["refused"] and not report["left_out"], report
    assert sum(len(keys) for keys in report["evidence"].values()) == 8


@pytest.mark.slow
def test_a_block_on_blackwell_waits_for_its_last_stores(tmp_path: Path) -> None:
    """With a key head for each query head, the library lets it end while a copy may still read its shared memory."""
    (tmp_path / "backward.yaml").write_text(
        "version: 1\nname: backward\ntargets: [sm_100a]\nkernels:\n  - kernel: attention_bwd\n"
        "    parts: [prepare, main, dq]\n    config: {dtype: bfloat16, head_dim: 64, causal: true}\n"
    )
    cache, store = tmp_path / "cache", kept_store()
    done = precast(store, "build", tmp_path / "backward.yaml", "-o", cache, "--keep", "ptx")
    assert done.returncode == 0, done.stderr
    options = ["--emulate", "--json", "--op", "attention_bwd.main", "--problem", "batch=1,tokens=1,kv_heads=1"]
    report = json.loads(precast(store, "verify", cache, *options).stdout)
    assert report["smallest"] is None and not report["refused"] and not report["left_out"], report
