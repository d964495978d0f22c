"""CUTLASS's operators: refusals before anything is compiled, and real compilations of every family."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from precast.build.errors import ManifestError
from precast.build.gpu.profile import profile_of
from precast.build.link.device_code import Cubin
from precast.kernels.adapters.operators import cases
from precast.kernels.adapters.operators.epilogue import Epilogue
from precast.kernels.adapters.operators.ops import gemm_blockscaled, gemm_grouped
from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.schema import keys_of
from precast.kernels.gemm import gemm
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from tests.helpers.kernels.kept_builds import built, disassembled, planned

MANIFEST = Path(__file__).parents[3] / "manifests" / "gemm.yaml"
BF16 = {"dtype": "bfloat16", "out_dtype": "bfloat16"}

# What a user may get wrong, for which target, and what has to be said of it.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "gemm": gemm,
    "gemm_blockscaled": gemm_blockscaled,
    "gemm_grouped": gemm_grouped,
}
MIXED: dict[str, Any] = {"tile": [256, 128], "two_cta": True, "cluster": [4, 1], "fallback_cluster": [2, 1]}
MISTAKES: list[tuple[str, dict[str, Any], str, str]] = [
    ("gemm", {"dtype": "float32", "out_dtype": "float32"}, "sm_90a", "dtype float32.*use dtype float16, bfloat16"),
    ("gemm", {"dtype": "int8", "out_dtype": "int8"}, "sm_90a", "accumulator float32.*use accumulator int32"),
    (
        "gemm",
        {"dtype": "int8", "out_dtype": "int32", "accumulator": "int32", "b_major": "n"},
        "sm_90a",
        "b_major n.*use b_major k, or build it for sm_100a",
    ),
    ("gemm", {"dtype": "bfloat16", "out_dtype": "int8"}, "sm_100a", "out_dtype int8.*use out_dtype float16"),
    ("gemm", {**BF16, "tile": [96, 128]}, "sm_90a", r"tile \[96, 128\].*use tile \[64, 64\], \[64, 128\]"),
    ("gemm", {**BF16, "tile": [256, 256]}, "sm_100a", r"tile \[256, 256\] with the rest of this design"),
    ("gemm", {**BF16, "cluster": [4, 4]}, "sm_90a", r"cluster \[4, 4\].*use cluster \[1, 1\], \[1, 2\]"),
    ("gemm", {**BF16, "two_cta": True, "cluster": [2, 1]}, "sm_90a", "two_cta true.*use two_cta false"),
    ("gemm", {**BF16, "scheduler": "dynamic"}, "sm_80", "scheduler dynamic.*use scheduler static"),
    ("gemm", {**BF16, "operator": "NoSuch"}, "sm_90a", "operator NoSuch.*use operator Sm80.*or Sm90"),
    ("gemm", {**BF16, "epilogue": "relu(accum + bias)"}, "sm_90a", "use epilogue '', or build it for sm_100a"),
    ("gemm", {**BF16, "epilogue": "accum+bias"}, "sm_100a", "write 'accum [+] bias'"),
    ("gemm", {**BF16, "epilogue": "accum + offset"}, "sm_100a", "'offset' is not known: use accum, bias"),
    ("gemm", {**BF16, "epilogue": "gelu(accum)"}, "sm_100a", "use relu, sigmoid, tanh, exp"),
    ("gemm", {**BF16, "epilogue": "accum * accum"}, "sm_100a", "cannot translate.*with other operations"),
    ("gemm_blockscaled", {"format": "mxfp4", "out_dtype": "int32"}, "sm_100a", "out_dtype int32.*use out_dtype"),
    ("gemm_blockscaled", {"format": "nvfp4", "out_dtype": "bfloat16"}, "sm_90a", "its kernel is for sm_100a"),
    ("gemm_grouped", BF16, "sm_90a", "its kernel is for sm_100a"),
    ("gemm_grouped", {**BF16, "tile": [32, 32]}, "sm_100a", r"tile \[32, 32\]"),
]
TUNED = ("tile", "cluster", "two_cta", "scheduler", "fallback_cluster", "operator")

# A sample of every family. Those of sm_100a that test_families has too are compiled once for both.
TWO = {"two_cta": True, "cluster": [2, 1]}
SAMPLE: list[tuple[str, str, dict[str, Any]]] = [
    ("sm_80", "gemm", {"dtype": "float16", "out_dtype": "float16", "tile": [64, 64], "a_major": "m", "b_major": "n"}),
    (
        "sm_90a",
        "gemm",
        {
            **BF16,
            "out_dtype": "float32",
            "batched": True,
            "a_major": "m",
            "b_major": "n",
            "tile": [128, 256],
            "cluster": [2, 1],
        },
    ),
    ("sm_90a", "gemm", {"dtype": "int8", "out_dtype": "int32", "accumulator": "int32"}),
    ("sm_90a", "gemm", {"dtype": "float8_e4m3fn", "out_dtype": "bfloat16"}),
    ("sm_100a", "gemm", {**BF16, **MIXED, "scheduler": "dynamic"}),
    ("sm_100a", "gemm", {**BF16, **MIXED, "scheduler": "static"}),
    ("sm_100a", "gemm", {**BF16, "tile": [64, 8]}),
    ("sm_100a", "gemm", {**BF16, "epilogue": "relu(alpha * accum + beta * C + bias)"}),
    ("sm_100a", "gemm", {"dtype": "int8", "out_dtype": "int32", "accumulator": "int32"}),
    ("sm_100a", "gemm_blockscaled", {"format": "nvfp4", "out_dtype": "bfloat16"}),
    ("sm_100a", "gemm_blockscaled", {"format": "mxfp4", "out_dtype": "bfloat16"}),
    ("sm_100a", "gemm_blockscaled", {"format": "mxfp8", "out_dtype": "float32", "tile": [128, 64]}),
    ("sm_100a", "gemm_grouped", {**BF16, "tile": [256, 128], **TWO}),
]
Compiled = dict[tuple[str, str, str], tuple[Artifact, Cubin]]
INSTRUCTION = {"sm_80": r"\bHMMA\.", "sm_90a": r"\b[HQI]GMMA\.", "sm_100a": r"\bUTC[A-Z]*MMA\b"}


def entry(op: str, config: Mapping[str, Any], target: str) -> dict[str, Any]:
    meaning = {name: value for name, value in config.items() if name not in TUNED}
    tuned = {name: value for name, value in config.items() if name in TUNED}
    return {"kernel": op, "config": meaning, "tuned": tuned, "targets": [target]}


def write(path: Path, entries: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"version": 1, "name": "operators", "kernels": entries}))
    return path


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample and, left out of it, the mistakes."""
    mistakes = [{**entry(op, config, target), "skip_unsupported": True} for op, config, target, _ in MISTAKES]
    sample = [entry(op, config, target) for target, op, config in SAMPLE]
    return write(tmp_path_factory.mktemp("sample") / "m.yaml", [*sample, *mistakes])


@pytest.fixture(scope="module")
def refusals(manifest: Path) -> dict[tuple[str, str, str], str]:
    plan = planned(manifest)
    assert len(plan.variants) == len(SAMPLE) and len(plan.skipped) == len(MISTAKES)
    return {key(s.variant.op, s.variant.config, s.variant.target): s.reason for s in plan.skipped}


def key(op: str, config: Mapping[str, Any], target: object) -> tuple[str, str, str]:
    full = complete(keys_of(FUNCTIONS[op]), config, op=op)
    return op, json.dumps(full, sort_keys=True), str(target)


@pytest.mark.slow
@pytest.mark.parametrize(("op", "config", "target", "said"), MISTAKES)
def test_a_mistake_is_refused_with_what_would_work(
    refusals: dict[tuple[str, str, str], str], op: str, config: dict[str, Any], target: str, said: str
) -> None:
    reason = refusals[key(op, config, target)]
    assert re.search(said, reason), reason


@pytest.fixture(scope="module")
def compiled(manifest: Path) -> Compiled:
    return {key(op, one.config, one.target): (one, cubin) for op, one, cubin in built(manifest)}


@pytest.mark.slow
@pytest.mark.parametrize(("target", "op", "config"), SAMPLE)
def test_compiles_to_tensor_core_code_that_does_not_spill(
    compiled: Compiled,
    target: str,
    op: str,
    config: dict[str, Any],
    tmp_path: Path,
) -> None:
    _, cubin = compiled[key(op, config, target)]
    assert str(cubin.target) == target
    limit = profile_of(Target.parse(target)).facts["max_shared_memory_per_block_optin"].value
    for resource in cubin.resources:
        assert (resource.stack, resource.local) == (0, 0)
        assert resource.shared <= int(limit)
    sass = disassembled(cubin, tmp_path)
    pattern = r"\bIGMMA\.|\bIMMA\." if target != "sm_100a" and config.get("dtype") == "int8" else INSTRUCTION[target]
    assert re.search(pattern, sass), f"no {pattern} in the machine code"


@pytest.mark.slow
@pytest.mark.parametrize(("target", "op", "config"), SAMPLE)
def test_the_signature_names_what_inputs_makes(
    compiled: Compiled, target: str, op: str, config: dict[str, Any]
) -> None:
    """The names and kinds of the compiled arguments are those of the sample inputs, in the same order."""
    declared = declaration_of(FUNCTIONS[op])
    assert declared.problems and declared.inputs
    full = complete(declared.keys, config, op=op)
    inputs = declared.inputs(full, declared.problems(full)[1], device="cpu", seed=1)
    signature = compiled[key(op, config, target)][0].signature
    assert [a.name for a in signature.passed] == list(inputs)
    bound: dict[str, int] = {}
    for argument in signature.passed:
        value = inputs[argument.name]
        if argument.kind == "scalar":
            assert isinstance(value, float) and argument.dtype == "float32"
            continue
        assert argument.dtype == str(value.dtype).removeprefix("torch.")
        assert argument.strides is not None
        for dim, size in (
            *zip(argument.shape, value.shape, strict=True),
            *zip(argument.strides, value.stride(), strict=True),
        ):
            if isinstance(dim, int):
                assert dim == size
            else:
                assert bound.setdefault(dim, size) == size, f"{argument.name}: {dim} is {bound[dim]} and {size}"
                assert size % signature.symbols[dim].divisibility == 0
    b = next(a for a in signature.passed if a.name == "b")
    a = next(a for a in signature.passed if a.name == "a")
    shared = set(a.shape) & set(b.shape)
    assert len(shared) == (2 if config.get("batched") else 1), "a call with two different k must be refused"


@pytest.mark.parametrize(
    ("function", "config"),
    [
        (gemm, BF16),
        (gemm, {**BF16, "a_major": "m", "b_major": "n", "out_major": "m", "batched": True}),
        (gemm, {"dtype": "int8", "out_dtype": "int8", "accumulator": "int32"}),
        (gemm, {"dtype": "float8_e4m3fn", "out_dtype": "float16"}),
        (gemm, {"dtype": "float16", "out_dtype": "float16", "accumulator": "float16"}),
        (gemm, {**BF16, "epilogue": "relu(alpha * accum + beta * C + bias)"}),
        (gemm_grouped, BF16),
    ],
)
def test_a_product_in_the_dtype_itself_is_within_tolerance(function: Any, config: dict[str, Any]) -> None:
    """What torch computes in float32 from the same inputs, rounded as the kernel rounds, passes."""
    declared = declaration_of(function)
    assert declared.problems and declared.inputs and declared.reference and declared.tolerance and declared.cost
    full = complete(declared.keys, config, op=declared.op)
    sizes = []
    for seed, problem in enumerate(declared.problems(full)[:-2]):
        inputs = declared.inputs(full, problem, device="cpu", seed=seed)
        expected = declared.reference(full, inputs)["out"]
        product = _torch(full, inputs)
        stored = product.to(inputs["out"].dtype).double()
        tolerance = declared.tolerance(full)
        allowed = tolerance.atol + tolerance.rtol * expected.double().abs()
        assert expected.shape == inputs["out"].shape
        assert ((stored - expected.double()).abs() <= allowed).all()
        sizes.append(float(expected.double().abs().mean()))
        assert inputs["a"].data_ptr() % 16 == 0
        assert (declared.cost(full, problem).flops > 0) == (problem["k"] > 0)
    assert max(sizes) > 0.3, "a tolerance says nothing where results are next to zero"


def _torch(config: Mapping[str, Any], inputs: Mapping[str, Any]) -> torch.Tensor:
    a, b = inputs["a"].float(), inputs["b"].float()
    if "offsets" in inputs:
        ends = inputs["offsets"].tolist()
        return torch.cat([a[s:e] @ b[g] for g, (s, e) in enumerate(zip([0, *ends[:-1]], ends, strict=True))])
    product = a @ b
    if config.get("epilogue"):
        product = torch.relu(0.75 * product - 1.25 * inputs["C"].float() + inputs["bias"].float())
    return product


def test_problems_reach_the_limits() -> None:
    problems = cases.problems(complete(keys_of(gemm), BF16, op="gemm"))
    assert {p["padding"] for p in problems} >= {0, 1} and {p["offset"] for p in problems} == {0, 1}
    inputs = [cases.inputs(complete(keys_of(gemm), BF16, op="gemm"), p, device="cpu", seed=1) for p in problems[:-1]]
    assert any(i["a"].data_ptr() % 32 for i in inputs), "a base at 16 bytes and no more"
    assert any(i["out"].stride(0) > i["out"].shape[1] for i in inputs), "rows that stand apart"
    assert any(p["m"] % 2 for p in problems), "an odd number of rows"


USERS = """
version: 1
name: acme
targets: [sm_90a]
path: [.]
kernels:
  - compile: "acme_gemm:PlainOperator"
    op: acme.gemm
    config: {dtype: float64, out_dtype: float64, accumulator: float64, b_major: n}
    tuned: {tile: [[16, 16], TILE]}
"""


def users_manifest(folder: Path, tile: str) -> Path:
    """A manifest of someone else's, beside a module of theirs, in a folder that has nothing to do with this one."""
    shutil.copy(Path(__file__).parent / "acme_gemm.txt", folder / "acme_gemm.py")
    path = folder / "m.yaml"
    path.write_text(USERS.replace("TILE", tile))
    return path


@pytest.mark.slow
def test_an_operator_of_ones_own_is_guarded_by_its_own_metadata(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"tile \[16, 32\].*use tile \[16, 16\] or \[32, 32\]"):
        planned(users_manifest(tmp_path, "[16, 32]"))


@pytest.mark.slow
def test_an_operator_of_ones_own_compiles_as_it_is(tmp_path: Path) -> None:
    artifacts = [one for _, one, _ in built(users_manifest(tmp_path, "[32, 32]"))]
    assert {one.config["tile"] for one in artifacts} == {(16, 16), (32, 32)}
    for one in artifacts:
        assert [a.name for a in one.signature.passed] == ["a", "b", "out"]
        assert {a.dtype for a in one.signature.passed} == {"float64"}


@pytest.mark.parametrize("format_", ["nvfp4", "mxfp4", "mxfp8"])
def test_scales_are_read_as_tensor_cores_do(format_: str) -> None:
    """The reference against the layout written out: scale (row, block) stands at the place that the formula gives."""
    config = complete(keys_of(gemm_blockscaled), {"format": format_, "out_dtype": "float32"}, op="gemm_blockscaled")
    problem = {"m": 130, "n": 136, "k": 512}
    inputs = cases.scaled_inputs(config, problem, device="cpu", seed=3)
    block = 16 if format_ == "nvfp4" else 32
    matrix = cases.unswizzled(inputs["a_scale"], problem["m"], problem["k"] // block)
    flat, across = inputs["a_scale"].double(), -(-problem["k"] // block // 4)
    for row, column in [(0, 0), (1, 0), (31, 3), (32, 1), (127, 7), (128, 5), (129, 15)]:
        tile = (row // 128) * across + column // 4
        place = tile * 512 + (row % 32) * 16 + (row % 128 // 32) * 4 + column % 4
        assert matrix[row, column] == flat[place]
    expected = cases.scaled_reference(config, inputs)["out"]
    assert expected.shape == (130, 136) and 0.3 < float(expected.std()) < 3.0


def test_four_bit_values_are_unpacked_low_bits_first() -> None:
    values = torch.tensor([[0x21, 0xF7]], dtype=torch.uint8)
    scales = torch.ones(512, dtype=torch.float8_e4m3fn)
    assert cases._real(values, scales, 16).tolist() == [[0.5, 1.0, 6.0, -6.0]]


@pytest.mark.parametrize("text", ["accum", "relu(accum + bias)", "alpha * accum + beta * C", "accum * sigmoid(accum)"])
def test_epilogues_evaluate_as_python_would(text: str) -> None:
    values = {"alpha": 2.0, "beta": 3.0, "bias": torch.randn(4), "C": torch.randn(3, 4)}
    accum = torch.randn(3, 4)
    names = {**values, "accum": accum, "relu": torch.relu, "sigmoid": torch.sigmoid}
    assert torch.equal(Epilogue.parse(text).evaluate(accum, values), eval(text, names))


@pytest.mark.parametrize(
    "text",
    ["", "accum @ C", "__import__('os')", "accum.T", "relu(accum, C)", "accum if C else bias", "bias", "(" * 300],
)
def test_expressions_that_are_none(text: str) -> None:
    assert Epilogue.refusal(text)
    with pytest.raises(ValueError, match="epilogue"):
        Epilogue.parse(text)


@pytest.mark.slow
def test_the_manifest_plans_whole() -> None:
    plan = planned(MANIFEST)
    assert not plan.skipped
    targets = [str(v.target) for v in plan.variants]
    assert targets.count("sm_90a") >= 60 and targets.count("sm_100a") >= 200
    assert {v.op for v in plan.variants} == {"gemm", "gemm_blockscaled", "gemm_grouped"}
