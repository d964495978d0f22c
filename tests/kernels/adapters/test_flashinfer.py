"""FlashInfer's adapter: what it relies on, what its references say, and that every op compiles for its targets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from precast.build.compile.worker import Worker
from precast.build.ipc.message import Message
from precast.kernels.adapters.flashinfer import library
from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.registry import find as find_op
from precast.kernels.authoring.registry import load
from precast.loader.contract.format.config import complete
from precast.loader.contract.format.signature import Signature
from precast.loader.contract.format.target import Target
from tests.helpers.kernels.kept_builds import worker_for

torch = pytest.importorskip("torch")
installed = pytest.mark.skipif(
    library.FLASHINFER.obstacle() is not None, reason=f"the library is not there: {library.FLASHINFER.obstacle()}"
)

NORM = {"dtype": "bfloat16", "hidden": 2880}
# Every op, a config of it, and the targets that can run it.
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("flashinfer.rmsnorm", NORM, "sm_90a"),
    ("flashinfer.fused_add_rmsnorm", NORM, "sm_90a"),
    ("flashinfer.rmsnorm", {**NORM, "strided": True, "weight_bias": 1.0, "pdl": True}, "sm_100a"),
    *(("flashinfer.mm_blockscaled", {"format": name}, "sm_120a") for name in ("nvfp4", "mxfp4", "mxfp8")),
]


def declaration(op: str) -> Declaration:
    """What the adapter says of an op."""
    return declaration_of(load(find_op(op)))


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[str, Worker]]:
    """One worker a target, started when it is first needed."""
    found: dict[str, Worker] = {}
    yield found
    for worker in found.values():
        worker.kill()


def compiled_signature(workers: dict[str, Worker], op: str, config: dict[str, Any], target: str) -> Signature:
    """What the object takes that a worker makes of an op."""
    declared = declaration(op)
    full = complete(declared.keys, config, op=op)
    assert declared.refusal(full, Target.parse(target)) is None
    if target not in workers:
        workers[target] = worker_for(target, [])
    request = {"source": str(find_op(op)), "config": dict(full), "symbols": ["entry"], "seconds": 300}
    workers[target].send(Message(request))
    reply = workers[target].receive(300).header
    assert "error" not in reply, f"{reply['error']}\n{reply['traceback']}"
    assert reply["assumed"].get("compute_capability_major", Target.parse(target).major) == Target.parse(target).major
    (signature,) = (Signature.parse(s) for s in reply["signatures"])
    return signature


@installed
@pytest.mark.slow
@pytest.mark.parametrize(("op", "config", "target"), CASES)
def test_it_compiles_without_a_gpu_and_takes_what_is_said(
    workers: dict[str, Worker], op: str, config: dict[str, Any], target: str
) -> None:
    declared = declaration(op)
    full = complete(declared.keys, config, op=op)
    signature = compiled_signature(workers, op, config, target)
    assert declared.problems and declared.inputs
    values = declared.inputs(full, declared.problems(full)[0], device="cpu", seed=0)
    passed = [argument for argument in signature.passed if argument.kind != "stream"]
    assert [a.name for a in passed] == list(values)
    for argument in passed:
        value = values[argument.name]
        if argument.kind == "pointer" and isinstance(value, torch.Tensor):
            assert argument.dtype == str(value.dtype).removeprefix("torch."), argument
        if argument.kind == "tensor":
            assert argument.dtype == str(value.dtype).removeprefix("torch."), argument
            assert len(argument.shape) == value.dim(), argument


CHANGED = """
def _get_compiled_rmsnorm_kernel(dtype, hidden, weight_bias, enable_pdl, sm_version, contiguous=True):
    raise AssertionError("called with a guess")
"""


@pytest.mark.slow
@installed
def test_a_change_upstream_is_named(tmp_path: Path) -> None:
    """A library of the right version whose function takes other parameters than the adapter gives."""
    package = tmp_path / "flashinfer" / "norm" / "kernels"
    package.mkdir(parents=True)
    for folder in (package, package.parent, package.parent.parent):
        (folder / "__init__.py").touch()
    (package / "rmsnorm.py").write_text(CHANGED)
    changed = worker_for("sm_90a", [tmp_path])
    try:
        config = complete(declaration("flashinfer.rmsnorm").keys, NORM, op="flashinfer.rmsnorm")
        request = {
            "source": str(find_op("flashinfer.rmsnorm")),
            "config": dict(config),
            "symbols": ["entry"],
            "seconds": 300,
            "inputs": [f"folder:{tmp_path}/flashinfer"],  # else the compilation does not see it
        }
        changed.send(Message(request))
        error = changed.receive(300).header["error"]
    finally:
        changed.kill()
    assert "flashinfer.norm.kernels.rmsnorm:_get_compiled_rmsnorm_kernel" in error
    assert "it takes (dtype, hidden, weight_bias, enable_pdl, sm_version, contiguous)" in error
    assert "pip install 'flashinfer-python==0.7.2.post1', or correct the adapter" in error


@pytest.mark.parametrize("op", sorted({op for op, _, _ in CASES}))
def test_every_op_can_be_verified_and_has_a_cost(op: str) -> None:
    declared = declaration(op)
    assert declared.verifiable and declared.cost


@pytest.mark.parametrize(("op", "config", "target"), CASES)
def test_inputs_and_references_agree(op: str, config: dict[str, Any], target: str) -> None:
    """A reference gives every output, in its shape; poison in the outputs does not reach it."""
    declared = declaration(op)
    full = complete(declared.keys, config, op=op)
    assert declared.problems and declared.inputs and declared.reference
    values = declared.inputs(full, declared.problems(full)[1], device="cpu", seed=3)
    expected = declared.reference(full, values)
    for name in declared.outputs:
        assert expected[name].shape == values[name].shape, name
        assert not expected[name].double().isnan().any(), name


@installed
@pytest.mark.parametrize(
    ("op", "config", "target", "said"),
    [
        ("flashinfer.rmsnorm", {"dtype": "float32", "hidden": 4096}, "sm_90a", "use one of float16, bfloat16"),
        ("flashinfer.rmsnorm", {"dtype": "bfloat16", "hidden": 1001}, "sm_90a", "use 1000 or 1008"),
        ("flashinfer.fused_add_rmsnorm", NORM, "sm_75", "build it for another target"),
    ],
)
def test_a_mistake_gets_a_reason_before_anything_is_compiled(
    op: str, config: dict[str, Any], target: str, said: str
) -> None:
    declared = declaration(op)
    reason = declared.refusal(complete(declared.keys, config, op=op), Target.parse(target))
    assert reason is not None and said in reason
