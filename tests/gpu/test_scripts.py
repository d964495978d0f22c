"""Kernel scripts, files with kernel_fn, reference_fn and get_inputs: what is built computes what the file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast import loader
from precast.kernels.authoring.declare import Declaration, declaration_of
from precast.kernels.authoring.registry import FunctionRef, load
from precast.kernels.authoring.verification.verify import verify
from precast.loader.format.config import Config

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
