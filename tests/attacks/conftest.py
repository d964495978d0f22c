"""A cache to attack, and the check that an attack opened nothing."""

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

__all__ = ["native", "path", "use"]

CONFIG = {"dtype": "bf16"}


@pytest.fixture
def get(use: Use) -> Callable[..., str]:
    """``loader.get`` of the op ``scale`` in a cache: the key of what it gives."""

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


@pytest.fixture
def refused(use: Use) -> Iterator[Refused]:
    """Ask a cache for ``scale``, perhaps on another host: a typed error with these words, and no library is opened."""
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
