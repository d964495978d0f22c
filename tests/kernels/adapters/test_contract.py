"""The contract of kernel scripts from declared ops, and the way back: what comes of it is the same kernel."""

from __future__ import annotations

import importlib
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from precast.build.link import elf
from precast.build.link.device_code import cubins_in
from precast.build.link.toolchain import find_toolchain
from precast.kernels.adapters.scripts.contract import contract, script
from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.errors import DeclarationError
from precast.kernels.authoring.registry import FunctionRef, find, known_ops, load
from precast.loader.contract.format.config import complete
from precast.loader.errors import ConfigError
from precast.loader.resolve.cache import Cache
from precast.measure.checks.verify import verify
from tests.helpers.builds import kept_store, succeeded

torch = pytest.importorskip("torch")

HALF = {"dtype": "bfloat16"}
OPS: dict[str, dict[str, Any]] = {
    "scale": {"dtype": "float32"},
    "add": HALF,
    "apply": {**HALF, "function": "gelu"},
    "reduce": {**HALF, "width": 136, "function": "argmax"},
    "softmax": {**HALF, "width": 136},
    "rmsnorm": {**HALF, "hidden": 136},
    "layernorm": {**HALF, "hidden": 136},
    "fused_add_rmsnorm": {**HALF, "hidden": 136},
    "rmsnorm_fp8": {"dtype": "float16", "hidden": 80, "residual": True},
    "act_and_mul": {**HALF, "width": 136},
    "silu_and_mul_fp8": {**HALF, "width": 256},
    "quantize_fp8": {**HALF, "width": 256},
    "dequantize_fp8": {**HALF, "width": 256},
    "rotary_paged": {**HALF, "q_heads": 4, "kv_heads": 2, "head_dim": 64, "page": 16},
    "mla_decode": HALF,
    "moe_sort": {"experts": 8},
    "moe_permute": {**HALF, "hidden": 256, "topk": 2},
    "moe_finalize": {**HALF, "hidden": 256, "topk": 2},
    "grouped_gemm_masked": {**HALF, "experts": 4},
    "grouped_gemm_contiguous": {**HALF, "experts": 4},
    "gemm_f64": {"out_major": "m"},
    "sgemm": {"align": 4},
    "gemm_sm80": {**HALF, "out_dtype": "float32"},
}
ASKING = ("grouped_gemm_masked", "grouped_gemm_contiguous")  # they ask the driver for facts, which a worker answers
SMALL = {"m": 67, "n": 40, "k": 30, "l": 1, "padding": 1, "offset": 1}
PROBLEMS = {
    **dict.fromkeys(("gemm_f64", "sgemm", "gemm_sm80"), SMALL),
    "mla_decode": {"batch": 1, "heads": 16, "keys": 63, "splits": 1, "kinds": 1, "padding": 8},
}


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Declaration]]:
    """The declaration of the kernel script with this text."""
    monkeypatch.syspath_prepend(tmp_path)

    def declare(text: str) -> Declaration:
        (tmp_path / "a_contract_file.py").write_text(text)
        return declaration_of(load(FunctionRef.parse("a_contract_file:kernel_fn")))

    yield declare
    sys.modules.pop("a_contract_file", None)


@pytest.mark.filterwarnings("ignore:cutlass.utils.LayoutEnum is deprecated")
@pytest.mark.parametrize("op", [op for op in OPS if op not in ASKING])
def test_a_script_of_an_op_is_read_back_as_the_same_kernel(read: Callable[[str], Declaration], op: str) -> None:
    declared, back = declaration_of(load(find(op))), read(script(op, OPS[op], PROBLEMS.get(op)))
    assert [(key.name, key.type, key.tuned, key.choices) for key in back.keys] == [
        (key.name, key.type, key.tuned, key.choices) for key in declared.keys
    ]
    full = complete(declared.keys, OPS[op], op=op)
    assert complete(back.keys, {}, op=op) == full, "what the script was made with is the default"
    assert back.inputs and back.reference and declared.reference and declared.inputs and declared.problems
    values = declared.inputs(full, PROBLEMS.get(op) or declared.problems(full)[1], device="cpu", seed=0)
    names = list(values)
    assert list(back.outputs) == [name for name in declared.outputs if values[name] is not None]
    assert list(back.in_place) == [name for name in declared.in_place if values[name] is not None]
    assert list(back.inputs(full, {}, device="cpu", seed=1)) == names

    def stand_in(spoil: float) -> Callable[..., None]:
        def launch(*arguments: Any) -> None:
            values = dict(zip(names, arguments, strict=True))
            assert declared.reference
            for name, result in declared.reference(full, values).items():
                if values[name] is not None:
                    values[name].copy_(result * spoil)

        return launch

    assert not [str(check) for check in verify(stand_in(1.0), back, full, device="cpu") if not check.passed]
    assert any(not check.passed for check in verify(stand_in(1.3), back, full, device="cpu"))


@pytest.mark.parametrize("op", OPS)
def test_inputs_and_reference_are_what_a_script_that_verifies_calls(monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    from precast.kernels.adapters.scripts.meta_tensors import on

    made = contract(op, OPS[op], PROBLEMS.get(op))
    with on("cpu"):
        torch.manual_seed(5)
        inputs = made.get_inputs()
        torch.manual_seed(5)
        again = made.get_inputs()
        others = made.get_inputs()
    assert inputs and all(isinstance(tensor, torch.Tensor) for tensor in inputs)
    assert equal(inputs, again) and not equal(inputs, others)
    found = made.reference_fn(*inputs)
    results = list(found) if isinstance(found, tuple) else [found]
    declared = declaration_of(load(find(op)))
    full = complete(declared.keys, OPS[op], op=op)
    assert declared.inputs and declared.problems
    values = declared.inputs(full, PROBLEMS.get(op) or declared.problems(full)[-2], device="cpu", seed=0)
    outputs = [values[name] for name in declared.outputs if values[name] is not None]
    assert [(one.dtype, one.shape) for one in results] == [(one.dtype, one.shape) for one in outputs]
    assert equal(inputs, again), "the reference leaves its inputs as they are"


def equal(some: list[Any], others: list[Any]) -> bool:
    """Whether tensors have the same values; NaN, which fills what a kernel must not read, is one."""
    return all(torch.allclose(a.double(), b.double(), 0, 0, equal_nan=True) for a, b in zip(some, others, strict=True))


def test_every_op_of_this_project_has_a_contract() -> None:
    ours = {op for op in known_ops() if find(op).module.startswith("precast.kernels.own.")}
    declared = {op: declaration_of(load(find(op))) for op in ours}
    assert {op for op, one in declared.items() if one.verifiable and one.ranks is None} == set(OPS)


def test_an_op_of_several_ranks_has_none() -> None:
    with pytest.raises(DeclarationError, match="launched by several ranks together"):
        contract("all_reduce", {"dtype": "float32", "world": 2})


def test_keys_are_keyword_only_parameters(read: Callable[[str], Declaration]) -> None:
    made = contract("rmsnorm_fp8", OPS["rmsnorm_fp8"])
    parameters = inspect.signature(made.kernel_fn).parameters
    assert [name for name, p in parameters.items() if p.kind is p.POSITIONAL_ONLY] == ["x", "residual_", "weight"]
    assert parameters["residual"].default is True and parameters["hidden"].kind is inspect.Parameter.KEYWORD_ONLY
    back = read(script("scale", {"dtype": "float32"}, {"n": 1000}))
    assert back.inputs
    values = back.inputs({"dtype": "bfloat16", "threads": 64, "unroll": 1}, {}, device="cpu", seed=1)
    assert values["x"].dtype == torch.bfloat16 and values["x"].shape == (1000,)


def test_what_has_no_contract_is_refused_with_what_to_do() -> None:
    with pytest.raises(DeclarationError, match=r"plain_op does not declare all of problems.*add what is missing"):
        contract("plain_op", {"text": ""}, source="textwrap:dedent")
    with pytest.raises(ConfigError, match="hidden"):
        contract("rmsnorm", HALF)


@pytest.mark.slow
def test_a_script_compiles_to_the_same_machine_code_as_its_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ops = ("scale", "rmsnorm_fp8")
    entries: list[dict[str, Any]] = []
    for op in ops:
        (tmp_path / f"written_{op}.py").write_text(script(op, OPS[op]))
        entries += [
            {"kernel": op, "config": OPS[op]},
            {"compile": f"written_{op}:kernel_fn", "op": f"written.{op}", "config": {}},
        ]
    manifest = {"version": 1, "name": "written", "targets": ["sm_90a"], "path": ".", "kernels": entries}
    (tmp_path / "written.yaml").write_text(json.dumps(manifest))
    folder, store = tmp_path / "cache", kept_store()
    succeeded("build", tmp_path / "written.yaml", "-o", folder, "--store", store, "-j", 1)
    cache, toolchain = Cache(folder), find_toolchain()
    for op in ops:
        (one,), (other,) = cache.op(op).artifacts, cache.op(f"written.{op}").artifacts
        assert one.config == other.config
        assert [(a.name, a.written) for a in one.signature.passed] == [
            (a.name, a.written) for a in other.signature.passed
        ]
        first, second = (
            [cubin.code for part in elf.embedded(cache.read(a.blob)) for cubin in cubins_in(toolchain, part)]
            for a in (one, other)
        )
        assert first and first == second
    (artifact,) = cache.op("scale").artifacts
    out = tmp_path / "exported"
    succeeded("export", folder, artifact.key, "-o", out, "--store", store, "--script")
    assert "kernel.py" in (out / "README.md").read_text()
    monkeypatch.syspath_prepend(out)
    module = importlib.import_module("kernel")
    assert {"kernel_fn", "reference_fn", "get_inputs"} <= set(vars(module))
    assert inspect.signature(module.kernel_fn).parameters["dtype"].default == "float32"
    sys.modules.pop("kernel")
