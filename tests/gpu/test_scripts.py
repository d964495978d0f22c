"""Kernel scripts, files with kernel_fn, reference_fn and get_inputs: what is built computes what the file says."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast import loader
from precast.kernels.authoring.declare import declaration_of
from precast.kernels.authoring.registry import FunctionRef, load
from precast.kernels.authoring.verify import verify

FOLDER = Path(__file__).with_name("scripts")

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["relu", "axpy", "double"])
def test_it_computes_what_the_file_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cutlass", reason="the file of the kernel imports the DSL, which is not installed")
    if f"script.{name}" not in loader.ops():
        pytest.skip("no cache holds the files: put one of tests/gpu/scripts.yaml in the kit")
    monkeypatch.syspath_prepend(FOLDER)
    declaration = declaration_of(load(FunctionRef.parse(f"{name}:kernel_fn")))
    kernel = loader.get(f"script.{name}")
    checks = list(verify(kernel, declaration, {}, device="cuda"))
    assert checks and all(check.passed for check in checks), checks


def test_one_that_takes_no_stream_is_not_tried_by_a_preload() -> None:
    """It would really launch, with tensors that have no memory."""
    if "script.relu" not in loader.ops():
        pytest.skip("no cache holds the files: put one of tests/gpu/scripts.yaml in the kit")
    done = loader.preload(["script.relu", "script.axpy"])
    assert ["takes no stream" in one.lazy for one in done.loaded] == [True, False], str(done)
