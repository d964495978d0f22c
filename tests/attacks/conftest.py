"""A cache to attack, and the check that an attack opened nothing. Each attack is made on both readers of caches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from precast import loader
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.launch.library import Libraries
from precast.loader.machine.machine import Machine, Machines
from tests.helpers.attacks import Fails, Refused
from tests.helpers.loader_fixtures import Use, native, path, use
from tests.helpers.native.libprecast import LibprecastReader, libprecast, program

__all__ = ["libprecast", "native", "path", "program", "use"]

PYTHON, LIBPRECAST = "python", "libprecast"
CONFIG = {"dtype": "bf16"}


@pytest.fixture(params=[PYTHON, LIBPRECAST])
def get(request: pytest.FixtureRequest) -> Callable[..., str]:
    """``loader.get`` of the op ``scale`` in a cache, and the same of libprecast: the key of what it gives."""
    use: Use = request.getfixturevalue("use")
    if request.param == LIBPRECAST:
        reader: LibprecastReader = request.getfixturevalue("libprecast")
        return lambda root, target="sm_90a": reader.ask(root, config=CONFIG, target=target).value()

    def ask(root: Path, target: str = "sm_90a") -> str:
        use(root)
        return loader.get("scale", CONFIG, target=target).artifact.key

    return ask


@pytest.fixture
def fails(get: Callable[..., str]) -> Fails:
    """Ask a cache for ``scale``: a typed error with these words is expected. A library may have been opened."""

    def ask(root: Path, *words: str) -> loader.PrecastError:
        with pytest.raises(loader.PrecastError) as caught:
            get(root)
        return _checked(caught.value, words)

    return ask


@pytest.fixture(params=[PYTHON, LIBPRECAST])
def refused(request: pytest.FixtureRequest) -> Iterator[Refused]:
    """Ask a cache for ``scale``: a typed error with these words is expected, and no library may be opened."""
    if request.param == PYTHON:
        yield request.getfixturevalue("refused_by_python")
        return
    reader: LibprecastReader = request.getfixturevalue("libprecast")

    def ask(root: Path, *words: str, target: str = "sm_90a") -> loader.PrecastError:
        with pytest.raises(loader.PrecastError) as caught:
            reader.ask(root, config=CONFIG, target=target).value()
        assert not reader.opened()
        return _checked(caught.value, words)

    yield ask


@pytest.fixture
def refused_by_python(use: Use) -> Iterator[Refused]:
    """The same of the Python loader alone, also for a host that is described."""
    opened: list[str] = []

    def refuse(code: bytes, sha256: str, label: str) -> int:
        opened.append(label)
        raise AssertionError(f"{label} was opened")

    def ask(root: Path, *words: str, target: str = "sm_90a", host: Machine | None = None) -> loader.PrecastError:
        machines = Machines(host)
        use(root, machines=machines, opener=KernelOpener(machines.on, Libraries(refuse)))
        with pytest.raises(loader.PrecastError) as caught:
            loader.get("scale", CONFIG, target=target)
        return _checked(caught.value, words)

    yield ask
    assert not opened, f"opened {opened}"


def _checked(error: loader.PrecastError, words: tuple[str, ...]) -> loader.PrecastError:
    for word in words:
        assert word in str(error), f"{word!r} is not in: {error}"
    assert len(str(error)) < 20_000
    return error
