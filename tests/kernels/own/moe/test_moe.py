"""The kernels of a mixture of experts: references against plain Python, and what is compiled in real workers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precast import loader
from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.kernels.own.moe import routing
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from precast.measure.checks.verify import verify
from tests.helpers.builds import kept_store, succeeded

HALF, FP8 = "bfloat16", "float8_e4m3fn"
CONFIGS: list[tuple[str, dict[str, Any]]] = [
    ("moe_sort", {"experts": 40, "align": 16}),
    ("moe_sort", {"experts": 40, "layout": "masked", "index_dtype": "int64", "cluster": 1}),
    ("moe_permute", {"dtype": HALF, "hidden": 264, "topk": 3}),
    ("moe_permute", {"dtype": FP8, "hidden": 256, "topk": 8, "block": 128}),
    ("moe_finalize", {"dtype": HALF, "hidden": 264, "topk": 9}),
    ("grouped_gemm_masked", {"dtype": HALF, "experts": 5, "tile": [256, 128], "cluster": [1, 2]}),
    ("grouped_gemm_masked", {"dtype": FP8, "experts": 4, "out_dtype": "float16", "tile": [128, 128]}),
    ("grouped_gemm_contiguous", {"dtype": HALF, "experts": 5, "activation": "silu", "tile": [128, 256]}),
    ("grouped_gemm_contiguous", {"dtype": FP8, "experts": 3, "activation": "silu", "tile": [64, 256]}),
]
NAMES = ["-".join(map(str, (op, *config.values()))) for op, config in CONFIGS]


def full(op: str, config: dict[str, Any]) -> dict[str, Any]:
    return complete(declaration_of(load(find(op))).keys, config, op=op)


@pytest.mark.parametrize(("op", "config"), CONFIGS, ids=NAMES)
def test_a_right_kernel_passes_verify_and_a_wrong_one_does_not(op: str, config: dict[str, Any]) -> None:
    config, declared = full(op, config), declaration_of(load(find(op)))
    assert declared.problems and declared.inputs and declared.reference and declared.cost
    *few, last = declared.problems(config)
    assert declared.cost(config, last).bytes > 0
    few = [problem for problem in few if problem.get("tokens", problem.get("m", 0)) < 100][:3]
    names = list(declared.inputs(config, few[0], device="cpu", seed=0))
    declaration = replace(declared, problems=lambda config: few, large=None)

    def stand_in(spoil: str) -> Callable[..., None]:
        def launch(*arguments: Any) -> None:
            values = dict(zip(names, arguments, strict=True))
            assert declared.reference
            for name, result in declared.reference(config, values).items():
                share = 1.1 if values[name].itemsize == 1 else 1.03  # float8 would round the less away
                wrong = result + 1 if result.dtype == torch.int32 else result * share
                values[name].copy_(wrong if name == spoil else result)

        return launch

    right = list(verify(stand_in(""), declaration, config, device="cpu"))
    assert all(check.passed for check in right), [str(check) for check in right if not check.passed][:3]
    outputs = {check.output for check in right if check.output}
    assert outputs == set(declared.outputs) - ({"out_scale"} if config.get("block", 0) is None else set())
    for name in outputs:
        assert any(not check.passed for check in verify(stand_in(name), declaration, config, device="cpu"))


ENTRIES = st.lists(st.lists(st.integers(-2, 12), min_size=3, max_size=3), max_size=30)


@given(ENTRIES, st.integers(0, 3), st.integers(1, 9), st.integers(1, 5), st.booleans(), st.integers(0, 120))
def test_the_sort_of_the_reference_is_stable_and_drops_what_it_must(
    ids: list[list[int]], first: int, experts: int, align: int, masked: bool, capacity: int
) -> None:
    capacity = capacity // experts * experts if masked else capacity
    given = torch.tensor(ids, dtype=torch.int64).view(-1, 3)
    found = routing.sort(given, first, experts=experts, align=align, masked=masked, capacity=capacity)
    flat = [e - first for row in ids for e in row]
    rows, sources, start, counts, offsets = [-1] * len(flat), [-1] * capacity, 0, [], []
    for expert in range(experts):
        mine = [entry for entry, e in enumerate(flat) if e == expert]
        start = expert * (capacity // experts) if masked else start
        end = start + capacity // experts if masked else capacity
        kept = mine[: max(0, end - start)]
        for place, entry in enumerate(kept):
            rows[entry], sources[start + place] = start + place, entry
        counts.append(len(kept))
        offsets.append(min(start, capacity))
        start += -(-len(mine) // align) * align
    offsets.append(capacity if masked else min(start, capacity))
    assert found.counts.tolist() == counts and found.offsets.tolist() == offsets
    assert found.rows.flatten().tolist() == rows and found.sources.tolist() == sources


@given(st.sampled_from([1, 2, 4, 8]), st.integers(0, 300_000))
def test_every_entry_is_one_warps(blocks: int, entries: int) -> None:
    shares = routing.Shares(blocks)
    length = shares.steps(entries) * 32
    starts = [shares.first(entries, block, warp) for block in range(blocks) for warp in range(routing.WARPS)]
    assert starts == [length * number for number in range(blocks * routing.WARPS)]
    assert length * len(starts) >= entries
    assert entries == 0 or length * len(starts) - entries < blocks * routing.THREADS


def test_routes_name_other_experts_for_each_choice_and_favour_some() -> None:
    found = routing.routes(400, 6, 16, device="cpu", seed=1)
    assert found.shape == (400, 6) and found.dtype == torch.int32
    assert all(len(set(row)) == 6 for row in found.tolist())
    counts = Counter(found.flatten().tolist())
    assert set(counts) <= set(range(16)) and max(counts.values()) > 1.5 * 400 * 6 / 16
    assert torch.equal(found, routing.routes(400, 6, 16, device="cpu", seed=1))


@pytest.mark.parametrize(
    ("op", "config", "said"),
    [
        ("moe_sort", {"experts": 0}, "use 1 to 1024"),
        ("moe_sort", {"experts": 8, "align": 0}, "use a positive number"),
        ("moe_sort", {"experts": 8, "align": 4, "layout": "masked"}, "leave it out"),
        ("moe_sort", {"experts": 8, "index_dtype": "float32"}, "use int32 or int64"),
        ("moe_sort", {"experts": 8, "cluster": 32}, "use one of 1, 2, 4, 8, 16"),
        ("moe_permute", {"dtype": "float32", "hidden": 256, "topk": 2}, "use one of bfloat16, float16, float8_e4m3fn"),
        ("moe_permute", {"dtype": HALF, "hidden": 100, "topk": 2}, "use a multiple of 8"),
        ("moe_permute", {"dtype": HALF, "hidden": 256, "topk": 65}, "use 1 to 64"),
        ("moe_permute", {"dtype": FP8, "hidden": 256, "topk": 2, "block": 96}, "use 128, or None"),
        ("moe_permute", {"dtype": FP8, "hidden": 256, "topk": 2, "threads": 96}, "use one of 64, 128, 256, 512"),
        ("moe_finalize", {"dtype": FP8, "hidden": 256, "topk": 2}, "use one of bfloat16, float16"),
        ("moe_finalize", {"dtype": HALF, "hidden": 256, "topk": 2, "unroll": 3}, "use one of 1, 2, 4"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_would_work(op: str, config: dict[str, Any], said: str) -> None:
    reason = declaration_of(load(find(op))).refusal(full(op, config), Target.parse("sm_90a"))
    assert reason and said in reason


def test_clusters_of_more_than_eight_blocks_are_for_gpus_that_have_them() -> None:
    declaration = declaration_of(load(find("moe_sort")))
    wide = full("moe_sort", {"experts": 8, "cluster": 16})
    assert declaration.refusal(wide, Target.parse("sm_103a")) is None
    assert "clusters of at most 8 blocks; use 1, 2, 4 or 8" in str(declaration.refusal(wide, Target.parse("sm_121a")))


@pytest.mark.slow
def test_each_compiles_as_it_was_meant(tmp_path: Path, build: Callable[..., Path]) -> None:
    """Without spills, with the arguments that it declares; and what the machine code says of some.

    What is no product is the same code for every target: test_families has some for another one.
    """
    entries = []
    for op, config in CONFIGS:
        tuned = {key.name for key in declaration_of(load(find(op))).keys if key.tuned}
        split = {
            name: {key: [value] for key, value in config.items() if (key in tuned) == (name == "tuned")}
            for name in ("config", "tuned")
        }
        entries.append({"kernel": op, **split})
    manifest = {"name": "moe", "targets": ["sm_90a"], "kernels": entries}
    cache = build(manifest)
    for op, config in CONFIGS:
        declaration = declaration_of(load(find(op)))
        kernel = loader.get(op, config, target="sm_90a")
        assert declaration.inputs and declaration.problems
        values = declaration.inputs(kernel.config, declaration.problems(kernel.config)[1], device="cpu", seed=0)
        passed = kernel.signature.passed
        assert [a.name for a in passed] == list(values), "the names and the order are what the declaration says"
        assert [a.always_none for a in passed] == [value is None for value in values.values()]
        assert [a.name for a in passed if a.written] == [
            n for n in values if n in declaration.outputs and values[n] is not None
        ]
        for resources in kernel.artifact.resources:
            assert (resources.stack, resources.local) == (0, 0), f"{op} {config} spills"

    def code(number: int) -> Counter[str]:
        op, config = CONFIGS[number]
        kernel = loader.get(op, config, target="sm_90a")
        files = tmp_path / str(number)
        succeeded("export", cache, kernel.artifact.key, "-o", files, "--store", kept_store())
        text = next(files.glob("*.sass")).read_text()
        return Counter(
            re.findall(r"\b(?:[HQ]GMMA\.\w+|UTMALDG[.\w]*|LDGSTS\.E\b|STSM[.\w]*|LDG\.E\.128|STG\.E\.128)", text)
        )

    assert code(4)["LDG.E.128"] == 9, "a vector of each choice"
    shared = code(5)
    assert shared["HGMMA.64x256x16"] == 4 and shared["UTMALDG.3D.MULTICAST"] == 1 and shared["UTMALDG.3D"] == 1
    assert shared["STSM.16.MT88.4"] == 256 // 16
    scaled = code(6)
    assert scaled["QGMMA.64x128x32"] == 4 and scaled["UTMALDG.3D"] == 2 and scaled["LDGSTS.E"] == 4, "and scales"
    gated = code(7)
    assert gated["HGMMA.64x128x16"] == 8 and gated["UTMALDG.3D"] + gated["UTMALDG.2D"] == 3, "gate, others and tokens"
    assert gated["STSM.16.MT88.4"] == 128 // 16, "half of what is multiplied is stored"
