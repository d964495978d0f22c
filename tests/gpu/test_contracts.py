"""Kernel scripts of this project's ops, verified as a script does that knows no more of a file than three names."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from precast.kernels.adapters.scripts.contract import script
from precast.kernels.authoring.registry import find
from tests.gpu.variants import runnable

pytestmark = pytest.mark.gpu


def first_of_each() -> list[Any]:
    """One variant of each op of this project that a cache holds."""
    found: dict[str, Any] = {}
    for op, variant in runnable():
        if find(op).module.startswith("precast.kernels.own."):
            found.setdefault(op, pytest.param(op, dict(variant.artifact.config), id=op))
    return list(found.values())


@pytest.mark.parametrize(("op", "config"), first_of_each())
def test_a_script_that_verifies_kernel_files_accepts_it(op: str, config: dict[str, Any], tmp_path: Path) -> None:
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
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        rtol = max(1e-3, torch.finfo(one.dtype).eps)
        torch.testing.assert_close(one.double(), other.double(), rtol=rtol, atol=1e-3)


def _listed(returned: Any) -> list[Any]:
    return list(returned) if isinstance(returned, tuple) else [returned]
