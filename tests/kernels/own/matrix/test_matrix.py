"""``gemm_f64``, ``sgemm`` and ``gemm_sm80``: verified on the CPU with their references in their place, and compiled."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from precast import loader
from precast.build.link import elf
from precast.build.link.device_code import cubins_in
from precast.build.link.toolchain import find_toolchain
from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target
from precast.loader.resolve.cache import Cache
from precast.measure.checks.verify import verify
from tests.helpers.kernels.kept_builds import planned

CUOBJDUMP = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "cuobjdump"
MANIFEST = Path(__file__).parents[4] / "manifests" / "matrix.yaml"
HALF = {"dtype": "bfloat16", "out_dtype": "bfloat16"}
CONFIGS: list[tuple[str, dict[str, Any]]] = [
    ("gemm_f64", {}),
    ("gemm_f64", {"a_major": "m", "b_major": "k", "out_major": "m", "batched": True, "align": 8}),
    ("sgemm", {}),
    ("sgemm", {"align": 4}),
    ("gemm_sm80", HALF),
    ("gemm_sm80", {"dtype": "float16", "out_dtype": "float32", "a_major": "m", "b_major": "n"}),
]
OFF = {  # what no right kernel is off
    ("gemm_f64", None): 1e-12, ("sgemm", None): 1e-3, ("gemm_sm80", "float32"): 1e-3, ("gemm_sm80", "bfloat16"): 0.05,
}  # fmt: skip
NAMES = ["-".join(map(str, (op, *config.values()))) for op, config in CONFIGS]


def full(op: str, config: dict[str, Any]) -> dict[str, Any]:
    return complete(declaration_of(load(find(op))).keys, config, op=op)


@pytest.mark.parametrize(("op", "config"), CONFIGS, ids=NAMES)
def test_a_right_kernel_passes_verify_and_a_wrong_one_does_not(op: str, config: dict[str, Any]) -> None:
    config, declared = full(op, config), declaration_of(load(find(op)))
    assert declared.problems and declared.inputs and declared.reference and declared.large
    problems = [p for p in declared.problems(config) if p["m"] < 200]
    declaration = replace(declared, problems=lambda config: problems, large=None)

    def stand_in(off: float) -> Callable[..., None]:
        def launch(a: Any, b: Any, out: Any) -> None:
            out.copy_(a.double() @ b.double() + off)

        return launch

    checks = list(verify(stand_in(0.0), declaration, config, device="cpu"))
    assert not [str(check) for check in checks if not check.passed]
    assert any(
        not check.passed
        for check in verify(stand_in(OFF[op, config.get("out_dtype")]), declaration, config, device="cpu")
    )


@pytest.mark.parametrize(("op", "config"), CONFIGS, ids=NAMES)
def test_problems_have_the_layouts_and_no_better_alignment_than_the_config_says(
    op: str, config: dict[str, Any]
) -> None:
    config, declared = full(op, config), declaration_of(load(find(op)))
    assert declared.problems and declared.inputs
    seen = set()
    for problem in list(declared.problems(config))[:-1]:
        values = declared.inputs(config, problem, device="cpu", seed=1)
        for name, rows, columns in (("a", "m", "k"), ("b", "k", "n"), ("out", "m", "n")):
            tensor = values[name]
            assert tensor.shape[-2:] == (problem[rows], problem[columns])
            contiguous = config.get(f"{name}_major", {"a": "k", "b": "n", "out": "n"}[name])
            assert tensor.stride(-2 if contiguous == rows else -1) == 1
            pitch = tensor.stride(-1 if contiguous == rows else -2) * tensor.element_size()
            align = config.get("align", 16)
            assert pitch % align == 0 and tensor.storage_offset() * tensor.element_size() % align == 0
            width = problem[rows] if contiguous == rows else problem[columns]
            seen.add((pitch % (2 * align) == 0, pitch >= width * tensor.element_size() + align))
    assert len(seen) == 4, "rows at the alignment that is asked for and at no better one, with gaps and without"


@pytest.mark.parametrize(
    ("op", "config", "target", "words"),
    [
        ("gemm_f64", {"instruction": "16x8x8"}, "sm_80", "instruction 16x8x8 is for sm_90+, not sm_80: use 8x8x4"),
        ("gemm_f64", {"tile": [128, 64]}, "sm_90a", "tile is [128, 64]: write its (m, n, k)"),
        ("gemm_f64", {"tile": [128, 64, 24]}, "sm_90a", "the k of the tile is 24: use a power of two, 4 or more"),
        ("gemm_f64", {"stages": 12}, "sm_90a", "12 stages take 294912 bytes, of 232448 on sm_90a"),
        ("sgemm", {"tile": [100, 128, 16]}, "sm_90a", "the m of the tile is 100: use a multiple of 96"),
        ("sgemm", {"stages": 4}, "sm_80", "4 stages take 131072 bytes, of 101376 on sm_80"),
        ("gemm_sm80", {**HALF, "dtype": "float32"}, "sm_90a", "dtype is float32: use one of bfloat16, float16"),
        ("gemm_sm80", {**HALF, "out_dtype": "float16"}, "sm_90a", "out_dtype is float16: use one of bfloat16, float32"),
        ("gemm_sm80", {**HALF, "tile": [128, 128, 8]}, "sm_90a", "the k of the tile is 8: use a multiple of 16"),
    ],
)
def test_what_cannot_be_built_is_refused_with_what_can(
    op: str, config: dict[str, Any], target: str, words: str
) -> None:
    declared = declaration_of(load(find(op)))
    reason = declared.refusal(full(op, config), Target.parse(target))
    assert reason is not None and words in reason


def test_the_defaults_are_for_every_target_and_the_tile_is_what_a_block_does() -> None:
    for op, config in CONFIGS:
        declared = declaration_of(load(find(op)))
        for target in ("sm_80", "sm_86", "sm_90a", "sm_100a", "sm_120a"):
            assert declared.refusal(full(op, config), Target.parse(target)) is None
        assert declared.tile
        tile = declared.tile(full(op, config), Target.parse("sm_90a"))
        if config.get("batched"):
            assert tile is None
        else:
            assert tile is not None and list(tile.sizes.values()) == list(full(op, config)["tile"][:2])


# For targets where the instruction or the shared memory is another one. One sgemm takes longest to compile, and is that
# of test_families.
COMPILED = [(*CONFIGS[1], ["sm_80", "sm_90a"]), (*CONFIGS[2], ["sm_100a"]), (*CONFIGS[4], ["sm_80", "sm_90a"])]
OPERATOR: dict[str, Any] = {  # of this project, which CUTLASS compiles
    "compile": "precast.kernels.own.matrix.device.f64_operator:GemmF64Operator",
    "op": "gemm_f64.operator",
    "config": {"dtype": "float64", "out_dtype": "float64", "accumulator": "float64", "b_major": "n"},
    "tuned": {"tile": [[128, 64]]},
}
INSTRUCTIONS = {
    "gemm_f64": {"LDGSTS", "LDS", "DMMA"},
    "sgemm": {"LDGSTS", "LDS", "FFMA"},
    "gemm_sm80": {"LDGSTS", "LDSM", "HMMA"},
}


@pytest.mark.slow
def test_each_compiles_for_each_target_without_spills_and_with_the_instructions_that_are_meant(
    tmp_path: Path, build: Callable[..., Path]
) -> None:
    entries = [{"kernel": op, "config": config, "targets": targets} for op, config, targets in COMPILED]
    manifest = {"name": "matrix", "targets": ["sm_80", "sm_90a", "sm_100a"], "kernels": entries}
    cache = build(manifest)
    for op, config, targets in COMPILED:
        for target in targets:
            kernel = loader.get(op, config, target=target)
            assert [a.name for a in kernel.signature.passed] == ["a", "b", "out"]
            assert [a.name for a in kernel.signature.passed if a.written] == ["out"]
            for resources in kernel.artifact.resources:
                assert (resources.stack, resources.local) == (0, 0), f"{op} {config} spills on {target}"
            if target == targets[-1]:
                assert instructions(Cache(cache), kernel.artifact, tmp_path / "code.cubin") >= INSTRUCTIONS[op]


@pytest.mark.slow
def test_an_operator_that_is_not_cutlass_own_compiles_for_blackwell(build: Callable[..., Path]) -> None:
    build({"name": "operator", "targets": ["sm_100a"], "kernels": [OPERATOR]}, torch=True)
    assert loader.get("gemm_f64.operator", OPERATOR["config"], target="sm_100a").signature.passed


def instructions(cache: Cache, artifact: Artifact, file: Path) -> set[str]:
    """The names of the machine instructions of an artifact."""
    toolchain, found = find_toolchain(), set()
    for fatbin in elf.embedded(cache.read(artifact.blob)):
        for cubin in cubins_in(toolchain, fatbin):
            file.write_bytes(cubin.code)
            done = subprocess.run([CUOBJDUMP, "-sass", file], check=True, capture_output=True, text=True, timeout=60)
            found |= set(re.findall(r"\b[A-Z]{3,}\b", done.stdout))
    return found


@pytest.mark.slow
def test_the_manifest_names_only_what_can_be_built() -> None:

    plan = planned(MANIFEST)
    assert {variant.op for variant in plan.variants} == {*INSTRUCTIONS, "gemm_f64.operator"}
    assert {str(target) for target in yaml.safe_load(MANIFEST.read_text())["targets"]} >= {"sm_80", "sm_90a", "sm_100a"}


def test_float64_is_found_by_cutlass_as_one_of_its_operators() -> None:
    import cutlass.operators as operators

    from precast.kernels.adapters.operators import arguments
    from precast.kernels.adapters.operators.config import Operands
    from precast.kernels.own.matrix.device.f64_operator import GemmF64Operator

    doubles: dict[str, Any] = {"dtype": "float64", "out_dtype": "float64", "accumulator": "float64"}
    layouts: list[dict[str, Any]] = [{}, {"b_major": "n", "out_major": "m"}, {"a_major": "m", "batched": True}]
    for layout in layouts:
        given = arguments.make(Operands(**doubles, **layout))
        for target in ("80", "90a", "100a"):
            found = operators.get_operators(given, target_sm=target)
            assert {type(one) for one in found} == {GemmF64Operator}
            assert {tuple(one.metadata.design.tile_shape) for one in found} == {(128, 64, 16), (64, 64, 16)}
    odd = operators.GemmArguments(
        torch.empty(3, 5, dtype=torch.float64),
        torch.empty(5, 7, dtype=torch.float64),
        torch.empty(3, 7, dtype=torch.float64),
        accumulator_type=torch.float64,
    )
    assert {one.design.align for one in operators.get_operators(odd, target_sm="90a")} == {8}
    half = arguments.make(Operands(dtype="bfloat16", out_dtype="bfloat16"))
    assert not [one for one in operators.get_operators(half, target_sm="90a") if isinstance(one, GemmF64Operator)]
