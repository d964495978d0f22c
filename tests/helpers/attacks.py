"""Ways to damage a cache, as one could who can write to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from precast import loader
from precast.loader.contract.format.index import digest

Refused = Callable[..., loader.PrecastError]
Fails = Callable[..., loader.PrecastError]


def edit(file: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file."""
    data = json.loads(file.read_bytes())
    change(data)
    file.write_text(json.dumps(data))


def forge(root: Path, op: str, data: bytes) -> None:
    """Replace an op's file, and its digest in the index."""
    (root / "ops" / f"{op}.json").write_bytes(data)
    edit(root / "index.json", lambda index: index["ops"][op].update(sha256=digest(data), size=len(data)))


def forge_op(root: Path, op: str, change: Callable[[Any], None]) -> None:
    """Change an op's file, and its digest in the index."""
    data = json.loads((root / "ops" / f"{op}.json").read_bytes())
    change(data)
    forge(root, op, json.dumps(data).encode())


def keep_cubins(root: Path) -> None:
    """Take every object out of a cache, which has both kinds; each op has a cubin."""
    counts: dict[str, int] = {}

    def state(index: Any) -> None:
        for op, count in counts.items():
            index["ops"][op]["artifacts"] = count

    for file in sorted((root / "ops").iterdir()):
        data = json.loads(file.read_bytes())
        data["artifacts"] = [row for row in data["artifacts"] if row["kind"] == "cubin"]
        data.pop("tuning", None)  # it names objects
        counts[file.stem] = len(data["artifacts"])
        assert counts[file.stem], file
        forge(root, file.stem, json.dumps(data).encode())
    edit(root / "index.json", state)
