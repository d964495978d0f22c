"""What needs a GPU is skipped elsewhere, and says so."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest


def obstacle() -> str | None:
    """Why nothing can be launched here, or None."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    import torch

    if not torch.cuda.is_available():
        return "there is no CUDA device here"
    from precast import loader

    if not loader.ops():
        return "no cache is installed: run 'tests/gpu/run KIT', with a kit made by tests/gpu/kit.py"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = obstacle() if here else None
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))


@pytest.fixture(autouse=True)
def _errors_surface_in_their_test() -> Iterator[None]:
    yield
    import torch

    torch.cuda.synchronize()
