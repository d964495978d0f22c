"""``mla_decode``: its inputs and reference beside torch's attention, what it refuses, and its machine code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from precast import loader
from precast.kernels import declaration_of
from precast.kernels.authoring.schema import keys_of
from precast.kernels.own.attention.mla_decode import mla_decode
from precast.loader.contract.format.config import Config, complete
from precast.loader.contract.format.target import Target
from precast.measure.checks.verify import verify
from tests.helpers.gpu.machine_code import instructions

SM90 = Target.parse("sm_90a")
CONFIGS: list[dict[str, Any]] = [{"dtype": "bfloat16", "page": 16, "lse": True}, {"dtype": "float16"}]
NAMES = ["bfloat16-page16-lse", "float16"]


def full(config: dict[str, Any]) -> dict[str, Any]:
    return complete(keys_of(mla_decode), config, op="mla_decode")


def few(config: Config) -> list[dict[str, int]]:
    problems = declaration_of(mla_decode).problems
    assert problems
    return [dict(p) for p in problems(config) if p["batch"] * p["heads"] * p["keys"] < 100_000]


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_the_reference_is_torchs_attention_of_each_sequence(config: dict[str, Any]) -> None:
    config = full(config)
    declaration = declaration_of(mla_decode)
    assert declaration.verifiable and declaration.refusal(config, SM90) is None
    assert declaration.inputs and declaration.reference
    seen = set()
    for seed, problem in enumerate(few(config)):
        values = declaration.inputs(config, problem, device="cpu", seed=seed)
        expected = declaration.reference(config, values)
        for i, length in enumerate(values["seqused_k"].tolist()):
            seen.add(length)
            rows = [
                values["cache"][int(values["page_table"][i, key // config["page"]]), key % config["page"]]
                for key in range(length)
            ]
            if not rows:
                assert not expected["out"][i].any() and expected["lse"][i].eq(-torch.inf).all()
                continue
            latents = torch.stack(rows).double().unsqueeze(0)
            q = values["q"][i].double().unsqueeze(0)
            found = torch.nn.functional.scaled_dot_product_attention(
                q, latents, latents[..., :512], scale=values["softmax_scale"]
            )
            torch.testing.assert_close(expected["out"][i], found[0], rtol=1e-9, atol=1e-9)
            logs = (q[0] @ latents[0].T * values["softmax_scale"]).exp().sum(-1).log()
            torch.testing.assert_close(expected["lse"][i], logs, rtol=1e-9, atol=1e-9)
    assert {0, 1, config["page"] - 1, config["page"], config["page"] + 1} <= seen


def test_what_no_sequence_has_is_nan_in_the_problems() -> None:
    """So that a kernel which lets it into a result is found."""
    config = full(CONFIGS[0])
    declaration = declaration_of(mla_decode)
    assert declaration.inputs
    for problem in few(config):
        values = declaration.inputs(config, problem, device="cpu", seed=3)
        used = int((~values["cache"].isnan()).all(dim=-1).sum())
        assert used == int(values["seqused_k"].sum())
        tables = [row[: -(-n // 16)] for row, n in zip(values["page_table"], values["seqused_k"].tolist(), strict=True)]
        pages = torch.cat([*tables, torch.zeros(0, dtype=torch.int32)])
        assert len(pages.unique()) == len(pages), "no two sequences share a page"


@pytest.mark.parametrize("config", CONFIGS, ids=NAMES)
def test_a_right_kernel_passes_verify_and_a_wrong_one_does_not(config: dict[str, Any]) -> None:
    config, declared = full(config), declaration_of(mla_decode)
    assert declared.inputs
    names = list(declared.inputs(config, few(config)[0], device="cpu", seed=0))
    declaration = replace(declared, problems=lambda config: few(config)[:4], large=None)

    def stand_in(spoil: str) -> Callable[..., None]:
        def launch(*arguments: Any) -> None:
            values = dict(zip(names, arguments, strict=True))
            assert declared.reference
            for name, result in declared.reference(config, values).items():
                if values[name] is not None:
                    values[name].copy_(result if name != spoil else result * 1.03)

        return launch

    right = list(verify(stand_in(""), declaration, config, device="cpu"))
    assert all(check.passed for check in right), [str(check) for check in right if not check.passed][:3]
    for name in {check.output for check in right if check.output}:
        assert any(not check.passed for check in verify(stand_in(name), declaration, config, device="cpu"))


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"dtype": "float32"}, "dtype is float32: use one of bfloat16, float16"),
        ({"page": 8}, "page is 8: use one of 16, 32, 64, 128"),
        ({"keys": 48}, "keys is 48: use one of 16, 32, 64, 128"),
        ({"keys": 128}, "shared memory holds 0 stages of so many latents, and 2 are needed; use 64 or fewer"),
    ],
)
def test_what_cannot_be_built_is_refused(changed: dict[str, Any], reason: str) -> None:
    config = full({"dtype": "bfloat16", **changed})
    assert reason in str(declaration_of(mla_decode).refusal(config, SM90))
    assert "sm_90a" in str(declaration_of(mla_decode).refusal(config, Target.parse("sm_100a")))


@pytest.mark.slow
def test_it_compiles_without_spills_and_with_the_arguments_that_it_declares(
    tmp_path: Path, build: Callable[..., Path]
) -> None:
    configs: list[dict[str, Any]] = [{**CONFIGS[0], "keys": 64}, {**CONFIGS[1], "keys": 32}]
    entries = [
        {"kernel": "mla_decode", "config": config, "tuned": {k: v for k, v in chosen.items() if k not in config}}
        for config, chosen in zip(CONFIGS, configs, strict=True)
    ]
    manifest = {"name": "mla", "targets": ["sm_90a"], "kernels": entries}
    cache = build(manifest)
    declaration = declaration_of(mla_decode)
    for config in configs:
        kernel = loader.get("mla_decode", config, target="sm_90a")
        assert declaration.inputs
        values = declaration.inputs(kernel.config, few(kernel.config)[1], device="cpu", seed=0)
        passed = kernel.signature.passed
        assert [a.name for a in passed] == list(values), "the names and the order are what the declaration says"
        assert [a.always_none for a in passed] == [value is None for value in values.values()]
        assert [a.name for a in passed if a.written] == [n for n in ("out", "lse") if values[n] is not None]
        assert len(kernel.artifact.resources) == 2, "one kernel for the shares, one that adds them up"
        for resources in kernel.artifact.resources:
            assert (resources.stack, resources.local) == (0, 0), f"{config} spills"
        code = instructions(cache, kernel.artifact, tmp_path)
        products = Counter({n.split("x16")[0]: c for n, c in code.items() if n.startswith("HGMMA")})
        steps = 2 * config["keys"] // 16  # of both groups, each with half of the columns
        assert products == {f"HGMMA.64x{config['keys']}": 576 // 16, "HGMMA.64x256": steps}
        pieces = config["keys"] // min(config["keys"], kernel.config["page"])
        assert sum(n for name, n in code.items() if name.startswith("UTMALDG")) == 576 // 64 * (pieces + 1)
