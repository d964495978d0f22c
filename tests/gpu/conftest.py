"""On a machine with a GPU, these tests need a cache that was built elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from precast.loader.errors import OpNotFound, VariantNotFound
from tests.helpers.gpu.device import no_device
from tests.helpers.gpu.lacks import lacking


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Without a cache there is nothing to launch: an error, so that such a run does not count as passed."""
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    if here and not no_device():
        from precast import loader

        if not loader.ops():
            raise pytest.UsageError(
                "no cache is installed: run 'tests/gpu/run KIT', with a kit made by tests/gpu/kit.py"
            )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """A fixture that requests a kernel which the kit lacks skips its tests."""
    return (yield from _skipping_what_the_kit_lacks())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """A test that requests a kernel which the kit lacks is skipped."""
    return (yield from _skipping_what_the_kit_lacks())


def _skipping_what_the_kit_lacks() -> Generator[None, None, None]:
    try:
        return (yield)
    except (OpNotFound, VariantNotFound) as error:
        from precast.loader import session

        capability = session.default.machines.on().capability
        reason = lacking(error, capability) if capability else ""
        if not reason:
            raise
        pytest.skip(f"{reason}: put a cache that has it in the kit (tests/gpu/kit.py)")


@pytest.fixture(autouse=True, scope="session")
def _gpu_is_in_the_report(record_testsuite_property: Callable[[str, object], None]) -> None:
    """So that ``benchmarks/kernel_list.py --tested`` knows where the tests passed."""
    if not no_device():
        import torch

        from precast.measure.launching.cases import this_device
        from precast.measure.verification.evidence import where_and_when

        for name, value in {**where_and_when(this_device(), os.environ), "gpus": torch.cuda.device_count()}.items():
            record_testsuite_property(name, value)


@pytest.fixture(autouse=True)
def _errors_surface_in_their_test() -> Iterator[None]:
    yield
    import torch

    torch.cuda.synchronize()
