"""``gemm`` of three libraries: what each refuses, and that a caller cannot tell whose kernel runs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from precast.build.gpu.profile import profile_of
from precast.build.link.device_code import Cubin
from precast.kernels.adapters.quack.gemm import Design
from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import find
from precast.kernels.authoring.schema import keys_of
from precast.kernels.gemm import gemm, problems, supports
from precast.kernels.own.matrix.gemm_sm90a import blocking_of
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from tests.helpers.kernels.kept_builds import built, disassembled

BF16 = {"dtype": "bfloat16", "out_dtype": "bfloat16"}
FP8 = {"dtype": "float8_e4m3fn", "out_dtype": "bfloat16"}
OWN = {**BF16, "library": "precast", "tile": [16, 64], "swap": True}
EARLY = {**OWN, "tile": [16, 64, 128], "residents": 2}
QUACK = {**BF16, "library": "quack", "tile": [128, 192]}
MEANING = ("dtype", "out_dtype", "accumulator", "a_major", "b_major", "out_major", "batched", "epilogue", "weights")

REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({**BF16, "split": 2}, "sm_90a", "library operators does not read split: .*use library precast"),
    ({**BF16, "pingpong": True}, "sm_90a", "does not read pingpong: .*use library quack"),
    ({**QUACK, "residents": 2}, "sm_90a", "library quack does not read residents"),
    ({**OWN, "swizzle": 8}, "sm_90a", "library precast does not read swizzle"),
    ({**QUACK, "cluster": [2, 1]}, "sm_120a", "neither clusters nor two_cta"),
    ({**QUACK, "tile": [256, 128]}, "sm_120a", "no tile 256 by 128: use 128 by 64, 128, 160 or 192, or 64 by 128"),
    ({**QUACK, "pingpong": True}, "sm_121a", "parities that PTX does not have"),
    ({**OWN, "operator": "Any"}, "sm_90a", "does not read operator: .*use library operators"),
    ({**BF16, "tile": [128, 128, 64]}, "sm_90a", r"3 sides: write its \(m, n\)"),
    ({**QUACK, "cluster": [2]}, "sm_90a", r"cluster has 1 sides: write its \(m, n\)"),
    ({**OWN, "tile": [16, 64, 64, 1]}, "sm_90a", r"\(m, n, k\)"),
    (OWN, "sm_100a", "for sm_90a, not sm_100a"),
    ({**OWN, "dtype": "float8_e5m2"}, "sm_90a", "use dtype bfloat16, float16, float8_e4m3fn"),
    ({**OWN, "b_major": "n"}, "sm_90a", "b_major 'k', not 'n': use library operators"),
    ({**OWN, "batched": True}, "sm_90a", "batched False"),
    ({**OWN, "cluster": [3, 1]}, "sm_90a", "powers of two"),
    ({**OWN, "cluster": [4, 4]}, "sm_90a", "a product of 8 or less"),
    ({**OWN, "cluster": [2, 1, 1]}, "sm_90a", r"write its \(m, n\)"),
    ({**OWN, "swap": False}, "sm_90a", "or build it with swap"),
    ({**OWN, "tile": [12, 64]}, "sm_90a", "use a multiple of 8"),
    (QUACK, "sm_80", "not sm_80: use library operators"),
    ({**QUACK, "dtype": "int8"}, "sm_90a", "does not multiply int8"),
    ({**QUACK, "epilogue": "relu(accum)"}, "sm_90a", "epilogue ''"),
    ({**QUACK, **FP8, "b_major": "n"}, "sm_90a", "b_major 'k'"),
    ({**QUACK, "scheduler": "dynamic"}, "sm_90a", "leave both out"),
    ({**QUACK, "cluster": [2, 2]}, "sm_90a", r"no cluster \[2, 2\]"),
    ({**QUACK, "tile": [96, 128]}, "sm_90a", "96 as its m: use 64, 128, 192, 256"),
    ({**QUACK, "tile": [96, 320], "swap": True}, "sm_90a", "320 as its n: use 64"),
    ({**QUACK, "tile": [128, 256], "pingpong": True}, "sm_90a", "256 as its n: use a multiple of 16 up to 208"),
    ({**QUACK, "tile": [192, 144]}, "sm_90a", "a multiple of 32 up to 256"),
    ({**QUACK, "pingpong": True}, "sm_100a", "pingpong on sm_90a only"),
    ({**QUACK, "tile": [256, 128]}, "sm_100a", "make that side of the cluster 2"),
    ({**QUACK, "tile": [256, 128], "cluster": [2, 1]}, "sm_100a", "two_cta is true: write that"),
    ({**QUACK, "tile": [64, 128]}, "sm_100a", "use 128, 256 as its m"),
]
SAMPLE: list[tuple[str, dict[str, Any]]] = [
    ("sm_90a", BF16),
    ("sm_90a", {**OWN, "split": 4, "residents": 2}),
    ("sm_90a", {**OWN, "tile": [8, 64, 256], "out_dtype": "float32"}),
    ("sm_90a", {**EARLY, "weights": False}),
    ("sm_90a", {**EARLY, "weights": True}),
    ("sm_90a", {**OWN, "tile": [64, 128], "cluster": [1, 2], "split": 2, "residents": 2}),
    ("sm_90a", {**OWN, "tile": [192, 176], "swap": False, "cluster": [2, 1], "split": 2}),
    ("sm_90a", {**OWN, "tile": [128, 256], "dtype": "float16", "out_dtype": "float16"}),
    ("sm_90a", {**OWN, **FP8, "tile": [16, 64, 256], "split": 2, "residents": 2}),
    ("sm_90a", {**OWN, **FP8, "tile": [176, 128], "cluster": [2, 1], "out_dtype": "float32"}),
    ("sm_90a", {**OWN, **FP8, "tile": [200, 256], "cluster": [2, 1], "split": 2}),
    ("sm_90a", {**QUACK, "b_major": "n", "pingpong": True, "cluster": [2, 1]}),
    ("sm_90a", {**QUACK, "tile": [192, 256], "swap": True, "cluster": [1, 2], "swizzle": 4}),
    ("sm_90a", {**QUACK, **FP8, "tile": [128, 256], "cluster": [2, 1]}),
    ("sm_100a", {**QUACK, "tile": [256, 192], "cluster": [2, 1], "two_cta": True, "scheduler": "dynamic"}),
    ("sm_100a", {**QUACK, "tile": [16, 128], "swap": True}),
]


def full(config: Mapping[str, Any]) -> dict[str, Any]:
    return dict(complete(keys_of(gemm), config, op="gemm"))


@pytest.mark.parametrize(("config", "target", "said"), REFUSED)
def test_what_a_library_does_not_do_is_refused_with_what_would_work(
    config: dict[str, Any], target: str, said: str
) -> None:
    reason = supports(full(config), Target.parse(target))
    assert reason and re.search(said, reason), reason


@pytest.mark.parametrize(("target", "config"), SAMPLE)
def test_the_sample_is_not_refused(target: str, config: dict[str, Any]) -> None:
    assert supports(full(config), Target.parse(target)) is None


@given(st.sampled_from([64, 128, 192, 256]), st.sampled_from([16, 64, 192]), st.booleans(), st.booleans())
def test_a_tile_is_of_the_result_whichever_side_is_first(m: int, n: int, swap: bool, pingpong: bool) -> None:
    config = full({**QUACK, "tile": [m, n], "cluster": [2, 1], "swap": swap, "pingpong": pingpong})
    design = Design.of(config)
    assert design.sides == ((n, m) if swap else (m, n))
    assert design.blocks == ((1, 2) if swap else (2, 1))


def test_the_registered_op_is_the_one_of_all_libraries() -> None:
    assert str(find("gemm")) == "precast.kernels.gemm:gemm"
    tuned = {key.name for key in keys_of(gemm) if key.tuned}
    assert tuned.isdisjoint(MEANING) and {key.name for key in keys_of(gemm)} == {*MEANING, *tuned}


def test_a_config_without_the_new_keys_is_what_it_was() -> None:
    config = full(BF16)
    assert (config["library"], config["split"], config["swap"]) == ("operators", 1, False)
    assert problems(full(OWN))[1]["m"] == 15


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], tuple[Artifact, Cubin]]:
    entries = [
        {
            "kernel": "gemm",
            "config": {name: value for name, value in config.items() if name in MEANING},
            "tuned": {name: value for name, value in config.items() if name not in MEANING},
            "targets": [target],
        }
        for target, config in SAMPLE
    ]
    path = tmp_path_factory.mktemp("gemm") / "m.yaml"
    path.write_text(json.dumps({"version": 1, "name": "gemm", "kernels": entries}))
    return {(str(one.target), shown(one.config)): (one, cubin) for _, one, cubin in built(path)}


def shown(config: Mapping[str, Any]) -> str:
    return json.dumps(config, sort_keys=True)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "config"), SAMPLE)
def test_a_caller_cannot_tell_whose_kernel_it_is(
    compiled: dict[tuple[str, str], tuple[Artifact, Cubin]], target: str, config: dict[str, Any]
) -> None:
    """Names, order, dtypes, shared dimensions, divisibility and alignment are those of the operator's."""
    signature = compiled[target, shown(full(config))][0].signature
    assert [a.name for a in signature.passed] == ["a", "b", "out"]
    assert {a.alignment for a in signature.passed} == {16}
    a, b, out = signature.passed
    assert (a.shape[1], out.shape) == (b.shape[0], (a.shape[0], b.shape[1]))
    assert len({*a.shape, *b.shape, *out.shape}) == 3
    inputs = declaration_of(gemm).inputs
    assert inputs
    values = inputs(full(config), problems(full(config))[2], device="cpu", seed=1)
    for argument in signature.passed:
        tensor: torch.Tensor = values[argument.name]
        assert argument.dtype == str(tensor.dtype).removeprefix("torch.")
        step = 16 // tensor.element_size()
        assert argument.strides is not None
        for dim, stride in zip(argument.shape, argument.strides, strict=True):
            if stride == 1:
                assert signature.symbols[str(dim)].divisibility >= step
            else:
                assert signature.symbols[str(stride)].divisibility == step
                assert signature.symbols[str(stride)].dtype == "int64"


@pytest.mark.slow
@pytest.mark.parametrize(("target", "config"), SAMPLE)
def test_compiles_to_tensor_core_code_that_does_not_spill(
    compiled: dict[tuple[str, str], tuple[Artifact, Cubin]], target: str, config: dict[str, Any], tmp_path: Path
) -> None:
    _, cubin = compiled[target, shown(full(config))]
    limit = profile_of(Target.parse(target)).facts["max_shared_memory_per_block_optin"].value
    for resource in cubin.resources:
        assert (resource.stack, resource.local) == (0, 0)
        assert resource.shared <= int(limit)
    sass = disassembled(cubin, tmp_path)
    assert re.search(r"\b[HQ]GMMA\." if target == "sm_90a" else r"\bUTC[A-Z]*MMA\b", sass)
    assert "UTMALDG" in sass, "matrices are loaded by TMA"
    if config.get("library") == "precast":
        assert ("QGMMA" in sass) == (config["dtype"] == "float8_e4m3fn")
        assert ("USETMAXREG" in sass) == blocking_of(full(config)).reallocates_registers
    if config.get("library") == "precast":
        shares = config.get("split", 1) * math.prod(config.get("cluster", [1]))
        assert ("UCGABAR_ARV" in sass) == (shares > 1), "blocks of a cluster wait for each other"
        assert (".MULTICAST" in sass) == ("cluster" in config)


@pytest.mark.slow
def test_weights_alone_are_loaded_before_the_wait(
    compiled: dict[tuple[str, str], tuple[Artifact, Cubin]], tmp_path: Path
) -> None:
    """What is loaded before the kernel before has ended, by the machine code."""
    found = {}
    for weights in (False, True):
        artifact, cubin = compiled["sm_90a", shown(full({**EARLY, "weights": weights}))]
        names = re.findall(r"\b(UTMALDG|ACQBULK)\b", disassembled(cubin, tmp_path))
        found[weights] = (artifact.signature, "".join("w" if name == "ACQBULK" else "l" for name in names))
    (without, plain), (promised, early) = found[False], found[True]
    assert without == promised, "the call is the same"
    assert re.fullmatch("w+l+w*", plain), plain  # the warps that store wait as well, somewhere
    loads = re.fullmatch("w?(l+)w((w?l+)*)w?", early)
    assert loads, early
    both, ahead = plain.count("l"), len(loads[1])
    assert 2 * ahead == both, "one side is loaded ahead"
    assert loads[2].count("l") == ahead + both, "then the other side of the same steps, and both sides of the rest"
