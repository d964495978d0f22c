"""What all tests share: those that need a CUDA device are skipped, with the reason, where there is none; and none fails
because a machine is slow for a moment."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.helpers.forks.alone import run_alone
from tests.helpers.forks.server import ONCE
from tests.helpers.gpu.device import no_device

GPU_TESTS = Path(__file__).parent / "gpu"
collect_ignore = ["demo"]  # scripts, not tests

_STEADY = ("build", "measure", "end_to_end/builds")  # rooms that have builds compile as those of users
_WHOLLY_SLOW = re.compile(r"^pytestmark = .*pytest\.mark\.slow", re.MULTILINE)

settings.register_profile("any speed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any speed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files whose tests are all slow, where no slow one is selected: their imports take seconds."""
    if config.option.markexpr != "not slow" or not collection_path.name.startswith("test_"):
        return None
    return bool(_WHOLLY_SLOW.search(collection_path.read_text())) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything under tests/gpu is marked ``gpu``; what is so marked runs only where a device is.

    Files with slow tests come first, so that of several processes none is left with one while the others have ended.
    """
    for item in items:
        if GPU_TESTS in item.path.parents:
            item.add_marker(pytest.mark.gpu)
        if item.get_closest_marker("gpu") and (reason := no_device()):
            item.add_marker(pytest.mark.skip(reason=reason))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Spend less of a run on garbage, and on compiling the tests again.

    Collections of garbage take a quarter of the collection of tests and a tenth of the tests, so there are none during
    the one and few during the other, and what was imported is left out of them. Pytest may keep the byte code of the
    tests, though ``make`` forbids everyone else to write any.
    """
    gc.disable()
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    try:
        return (yield)
    finally:
        sys.dont_write_bytecode = before
        gc.freeze()
        gc.set_threshold(100_000, 50, 50)
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is marked ``alone`` by a pytest of its own, which has imported nothing but its file."""
    if pyfuncitem.get_closest_marker("alone") is None or "TESTS_ALONE" in os.environ:
        return None
    run_alone(pyfuncitem.nodeid, pyfuncitem.config.rootpath)
    return True


@pytest.fixture(scope="session")
def no_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The PYTHONPATH of a process from which torch is hidden, as on a build host that has none.

    TVM-FFI imports torch where there is one, so that the first compilation of each worker takes two seconds longer.
    """
    folder = tmp_path_factory.mktemp("without_torch")
    (folder / "torch.py").write_text("raise ImportError('torch is hidden from this process')\n")
    return str(folder)


@pytest.fixture(scope="module")
def without_torch(no_torch: str) -> Iterator[None]:
    """Hide torch from the child processes of a whole file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", no_torch)
        yield


@pytest.fixture(scope="module", autouse=True)
def _compiled_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """Builds compile some variants twice, to see that both are the same: here, in the rooms that are about that."""
    room = request.path.relative_to(GPU_TESTS.parents[1]).as_posix()
    with pytest.MonkeyPatch.context() as patch:
        if not room.startswith(tuple(f"tests/{name}/" for name in _STEADY)):
            patch.setenv(ONCE, "1")
        yield


@pytest.fixture(scope="module")
def forked_children() -> Iterator[None]:
    """Fork the child processes of builds, which this process starts, from one that has imported the DSL."""
    from precast.build.ipc import child_process
    from tests.helpers.forks.forked_children import start_child

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child_process, "start_process", start_child)
        yield
