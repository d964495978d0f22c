"""The kernels compiled for real, each target in a process of its own, and what the machine code says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from elftools.elf.elffile import ELFFile

from precast.kernels import declaration_of
from precast.kernels.authoring.registry import find, load
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.target import Target

MANIFEST = Path(__file__).parents[3] / "manifests" / "default.yaml"
CUOBJDUMP = Path(sysconfig.get_path("purelib")) / "nvidia" / "cu13" / "bin" / "cuobjdump"
CASES: list[tuple[str, dict[str, Any]]] = [
    ("scale", {"dtype": "float32"}),
    ("scale", {"dtype": "float16", "threads": 1024, "unroll": 8}),
    ("rmsnorm", {"dtype": "bfloat16", "hidden": 128, "threads": 128}),
    ("rmsnorm", {"dtype": "bfloat16", "hidden": 4096, "threads": 128}),
    ("rmsnorm", {"dtype": "float32", "hidden": 8192, "threads": 128}),
    ("rmsnorm", {"dtype": "float32", "hidden": 4, "threads": 32}),
    ("rmsnorm", {"dtype": "bfloat16", "hidden": 65544, "threads": 1024}),
    ("scale", {"dtype": "bfloat16", "rank": 2}),
    ("add", {"dtype": "bfloat16", "rank": 2}),
    ("apply", {"dtype": "bfloat16", "function": "gelu_tanh"}),
    ("layernorm", {"dtype": "bfloat16", "hidden": 16384, "threads": 512}),
    ("layernorm", {"dtype": "float16", "hidden": 65544, "bias": False, "threads": 1024}),
    ("softmax", {"dtype": "bfloat16", "width": 4096}),
    ("softmax", {"dtype": "float32", "width": 128256, "threads": 1024}),
    ("softmax", {"dtype": "bfloat16", "width": 128256, "cluster": 8, "threads": 256, "staged": True}),
    ("softmax", {"dtype": "bfloat16", "width": 32768, "staged": True}),
    ("reduce", {"dtype": "bfloat16", "width": 4096, "function": "sum"}),
    ("reduce", {"dtype": "bfloat16", "width": 151936, "function": "argmax", "cluster": 4, "threads": 512}),
    ("quantize_fp8", {"dtype": "bfloat16", "width": 4096}),
    ("quantize_fp8", {"dtype": "bfloat16", "width": 4096, "block": 128}),
    ("dequantize_fp8", {"dtype": "bfloat16", "width": 4096, "block": 128}),
    ("silu_and_mul_fp8", {"dtype": "bfloat16", "width": 14336}),
]
NAMES = {
    "scale": ("x", "out", "factor"),
    "add": ("x", "y", "out"),
    "apply": ("x", "out"),
    "rmsnorm": ("x", "weight", "out", "eps"),
    "layernorm": ("x", "weight", "bias", "out", "eps"),
    "softmax": ("x", "out"),
    "reduce": ("x", "out"),
    "quantize_fp8": ("x", "out", "scale"),
    "dequantize_fp8": ("x", "scale", "out"),
    "silu_and_mul_fp8": ("x", "out", "scale"),
}
FIRST = {op: number for number, (op, _) in reversed(list(enumerate(CASES)))}  # of each op
OLDEST = {"quantize_fp8": 89, "dequantize_fp8": 89, "silu_and_mul_fp8": 90}  # the others: 80
# Compiles every case it is given, and leaves the object and the cubin of each.
WORKER = """
import json, pathlib, sys
folder = pathlib.Path(sys.argv[1])
import cutlass.cute as cute
compile_ = cute.compile
cute.compile = lambda *a, options, **k: compile_(*a, options=f"{options} --keep-cubin --dump-dir {folder}", **k)
from precast.kernels.authoring.registry import find, load
from precast.kernels.authoring.schema import call
names, cases = json.load(sys.stdin)
for i, op, config in cases:
    compiled = call(load(find(op)), config)
    compiled.export_to_c(str(folder / f"{i}.o"), function_name=op, export_only_tvm_ffi_symbols=True)
    (folder / f"{i}.cubin").write_bytes(compiled.__cubin__)
    try:
        compiled(*[None] * len(names[op]))
    except TypeError as error:
        (folder / f"{i}.txt").write_text(str(error))
"""


@pytest.fixture(scope="module", params=["sm_90a", "sm_100a", "sm_80"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, no_torch: str) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run(
        [sys.executable, "-c", WORKER, str(folder)],
        input=json.dumps([NAMES, [(i, *CASES[i]) for i in range(len(CASES)) if compiled(request.param, i)]]),
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "CUTE_DSL_ARCH": request.param, "PYTHONPATH": no_torch},
    )
    return request.param, folder


def runs(target: str, case: tuple[str, dict[str, Any]]) -> bool:
    op, config = case
    return int(re.findall(r"\d+", target)[0]) >= (90 if config.get("cluster", 1) > 1 else OLDEST.get(op, 80))


def compiled(target: str, case: int) -> bool:
    """All for one target, and for the others one of each op: they are compiled from the same code."""
    return runs(target, CASES[case]) and (target == "sm_90a" or FIRST[CASES[case][0]] == case)


@cache
def dump(cubin: Path, *options: str) -> str:
    return subprocess.run([CUOBJDUMP, *options, cubin], check=True, capture_output=True, text=True, timeout=60).stdout


def symbols(path: Path) -> set[str]:
    with path.open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".symtab")
        return {
            s.name
            for s in table.iter_symbols()
            if s["st_shndx"] != "SHN_UNDEF" and s["st_info"]["bind"] == "STB_GLOBAL"
        }


@pytest.mark.slow
@pytest.mark.parametrize("case", range(len(CASES)), ids=["-".join(map(str, (op, *c.values()))) for op, c in CASES])
def test_a_compiled_kernel(built: tuple[str, Path], case: int) -> None:
    target, folder = built
    op, config = CASES[case]
    declaration = declaration_of(load(find(op)))
    full = complete(declaration.keys, config, op=op)
    refused = declaration.refusal(full, Target.parse(target))
    assert (refused is None) == runs(target, CASES[case]), "what is declared is what is compiled here"
    if not compiled(target, case):
        return
    assert declaration.inputs and declaration.problems
    values = declaration.inputs(full, declaration.problems(full)[0], device="cpu", seed=0)
    assert tuple(values) == NAMES[op], "the order of the inputs is the order of a call"
    assert f"__tvm_ffi_{op}" in symbols(folder / f"{case}.o")
    cubin = folder / f"{case}.cubin"
    assert re.findall(r"\.(sm_\d+[af]?)\.cubin", dump(cubin, "-lelf")) == [target]
    usage = dump(cubin, "-res-usage")
    assert "STACK:0 " in usage and "LOCAL:0 " in usage, "nothing is spilled"
    registers = int(re.findall(r"REG:(\d+)", usage)[0])
    assert registers * int(config.get("threads", 128)) <= 65536
    widest = r"STG[.\w]*\.128" if op == "dequantize_fp8" else r"LDG[.\w]*\.128"  # float8 is the narrower side
    assert target != "sm_90a" or re.search(widest, dump(cubin, "-sass")), "memory is read 16 bytes at a time"
    refusal = (folder / f"{case}.txt").read_text()
    assert re.findall(r"`(\w+)\(", refusal) == [op], "a bad call is told the op's name"
    assert tuple(re.findall(r"(\w+): ", refusal.partition("`")[2])) == NAMES[op]


def test_the_default_manifest_names_only_what_can_be_built() -> None:
    manifest = yaml.safe_load(MANIFEST.read_text())
    assert manifest["targets"] == ["sm_90a", "sm_100a"]
    count = 0
    for entry in manifest["kernels"]:
        declaration = declaration_of(load(find(entry["kernel"])))
        for config in variants({**entry["config"], **entry.get("tuned", {})}):
            full = complete(declaration.keys, config, op=declaration.op)
            assert all(declaration.refusal(full, Target.parse(t)) is None for t in manifest["targets"])
            count += 1
    assert count == 62


def variants(matrix: dict[str, list[Any]]) -> list[dict[str, Any]]:
    import itertools

    return [dict(zip(matrix, values, strict=True)) for values in itertools.product(*matrix.values())]
