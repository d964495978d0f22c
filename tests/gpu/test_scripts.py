"""Kernel scripts, files with kernel_fn, reference_fn and get_inputs: what is built computes what the file says,
and what is written of an op is taken by a script that verifies such files."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.kernels.adapters.scripts.contract import script
from precast.kernels.authoring.declare import Declaration, Tolerance, declaration_of
from precast.kernels.authoring.registry import FunctionRef, find, load
from precast.loader.contract.format.config import Config
from precast.measure.checks.verify import verify
from tests.gpu.variants import runnable

FOLDER = Path(__file__).with_name("scripts")

pytestmark = pytest.mark.gpu


def declared(name: str, op: str, monkeypatch: pytest.MonkeyPatch) -> Declaration:
    """The declaration of a file, if a cache holds what was built of it."""
    pytest.importorskip("cutlass", reason="the file of the kernel imports the DSL, which is not installed")
    if op not in loader.ops():
        pytest.skip("no cache holds the files: put one of tests/gpu/scripts.yaml in the kit")
    monkeypatch.syspath_prepend(FOLDER)
    return declaration_of(load(FunctionRef.parse(f"{name}:kernel_fn")))


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("relu", {}), ("axpy", {}), ("double", {}), ("triple", {}),
        ("power", {"dtype": "float32", "exponent": 2}), ("power", {"dtype": "bfloat16", "exponent": 2}),
    ],
)  # fmt: skip
def test_it_computes_what_the_file_says(name: str, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    declaration = declared(name, f"script.{name}", monkeypatch)
    kernel = loader.get(f"script.{name}", config)
    checks = list(verify(kernel, declaration, kernel.config, device="cuda"))
    assert checks and all(check.passed for check in checks), checks


def test_the_parts_of_a_file_compute_it_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    declaration = declared("square_add", "script.square_add.square", monkeypatch)
    assert declaration.inputs and declaration.reference
    values = declaration.inputs({}, {"case": 1}, device="cuda", seed=0)
    expected = declaration.reference({}, values)
    assert list(declaration.parts) == ["square", "add"] and list(expected) == ["add.out"]
    for part in declaration.parts:
        kernel = loader.get(f"script.square_add.{part}")
        kernel(**{name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{part}.")})
    torch.testing.assert_close(values["add.out"], expected["add.out"])


def test_one_that_takes_no_stream_is_not_tried_by_a_preload() -> None:
    """It would really launch, with tensors that have no memory."""
    if "script.relu" not in loader.ops():
        pytest.skip("no cache holds the files: put one of tests/gpu/scripts.yaml in the kit")
    done = loader.preload(["script.relu", "script.axpy"])
    assert ["takes no stream" in one.lazy for one in done.loaded] == [True, False], str(done)


def first_of_each() -> list[Any]:
    """One variant of each op of this project that a cache holds."""
    found: dict[str, Any] = {}
    for op, variant in runnable():
        if find(op).module.startswith("precast.kernels.own."):
            found.setdefault(op, pytest.param(op, dict(variant.artifact.config), id=op))
    return list(found.values())


@pytest.mark.parametrize(("op", "config"), first_of_each())
def test_what_is_written_of_an_op_is_verified_as_a_file_is(op: str, config: dict[str, Any], tmp_path: Path) -> None:
    import torch

    path = tmp_path / f"written_{op.replace('.', '_')}.py"
    path.write_text(script(op, config))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
        torch.manual_seed(1)
        inputs = module.get_inputs()
        assert all(isinstance(tensor, torch.Tensor) and tensor.is_cuda for tensor in inputs)
        expected, found = (_listed(function(*inputs)) for function in (module.reference_fn, module.kernel_fn))
    finally:
        sys.modules.pop(path.stem)
    assert len(found) == len(expected) > 0
    tolerance = declaration_of(load(find(op))).tolerance
    allowed = tolerance(config) if tolerance else Tolerance(rtol=0.0, atol=0.0)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if not one.dtype.is_floating_point:  # indices, of an argmax
            assert torch.equal(one, other)
            continue
        rtol = max(1e-3, allowed.rtol + torch.finfo(one.dtype).eps)  # the reference is rounded, too
        torch.testing.assert_close(one.double(), other.double(), rtol=rtol, atol=max(1e-3, allowed.atol))


def _listed(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, tuple) else [returned]
