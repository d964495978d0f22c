"""A cache to attack, and the check that an attack opened nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from precast import loader
from precast.loader.launch.kernel import KernelOpener
from precast.loader.launch.library import Libraries
from precast.loader.machine.machine import Machine, Machines
from tests.helpers.attacks import Refused
from tests.helpers.loader_fixtures import Use, native, path, use

__all__ = ["native", "path", "use"]


@pytest.fixture
def refused(use: Use) -> Iterator[Refused]:
    """Ask a cache for ``scale``: a typed error with these words is expected, and no library may be opened."""
    opened: list[str] = []

    def refuse(code: bytes, sha256: str, label: str) -> int:
        opened.append(label)
        raise AssertionError(f"{label} was opened")

    def ask(root: Path, *words: str, target: str = "sm_90a", host: Machine | None = None) -> loader.PrecastError:
        machines = Machines(host)
        use(root, machines=machines, opener=KernelOpener(machines.on, Libraries(refuse)))
        with pytest.raises(loader.PrecastError) as caught:
            loader.get("scale", {"dtype": "bf16"}, target=target)
        for word in words:
            assert word in str(caught.value), f"{word!r} is not in: {caught.value}"
        assert len(str(caught.value)) < 20_000
        return caught.value

    yield ask
    assert not opened, f"opened {opened}"
