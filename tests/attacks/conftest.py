"""A cache to attack, and the check that an attack opened nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.format.index import digest
from precast.loader.launch import library
from tests.loader.conftest import native, path, use

__all__ = ["native", "path", "use"]

Refused = Callable[..., loader.PrecastError]


def edit(file: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file."""
    data = json.loads(file.read_bytes())
    change(data)
    file.write_text(json.dumps(data))


def forge(root: Path, op: str, data: bytes) -> None:
    """Replace an op's file, and have the index vouch for it, as one would who can write both."""
    (root / "ops" / f"{op}.json").write_bytes(data)
    edit(root / "index.json", lambda index: index["ops"][op].update(sha256=digest(data), size=len(data)))


def forge_op(root: Path, op: str, change: Callable[[Any], None]) -> None:
    """Change an op's file, and have the index vouch for it."""
    data = json.loads((root / "ops" / f"{op}.json").read_bytes())
    change(data)
    forge(root, op, json.dumps(data).encode())


@pytest.fixture
def refused(use: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[Refused]:
    """Ask a cache for ``scale``: a typed error with these words is expected, and no library may be opened."""
    opened: list[str] = []
    monkeypatch.setattr(library, "open_bytes", lambda code, sha256, label: opened.append(label))
    monkeypatch.setattr(library, "_libraries", library.OnceTable())
    monkeypatch.setattr(library, "_runtimes", library.OnceTable())

    def ask(root: Path, *words: str, target: str = "sm_90a") -> loader.PrecastError:
        use(root)
        with pytest.raises(loader.PrecastError) as caught:
            loader.get("scale", {"dtype": "bf16"}, target=target)
        for word in words:
            assert word in str(caught.value), f"{word!r} is not in: {caught.value}"
        assert len(str(caught.value)) < 20_000
        return caught.value

    yield ask
    assert not opened, f"opened {opened}"
