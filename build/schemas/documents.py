"""The published JSON Schemas: of a manifest, of a cache's ``index.json``, of its ``ops/<op>.json``.

They are for editors and other languages; the readers decide. ``make reference`` writes the files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NAMES = ("manifest", "index", "op")


def schema_of(name: str) -> dict[str, Any]:
    """One of the schemas, by name.

    >>> schema_of("manifest")["required"]
    ['version', 'name', 'kernels']
    """
    schema: dict[str, Any] = json.loads(Path(__file__).with_name(f"{name}.json").read_bytes())
    return schema
