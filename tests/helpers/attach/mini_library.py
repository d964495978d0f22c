"""Small libraries as pip would install them."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path

PACKAGE = "minilib"


def write_library(
    folder: Path,
    files: Mapping[str, str],
    *,
    version: str = "1.0",
    package: str = PACKAGE,
    distribution: str = PACKAGE,
) -> Path:
    """Write the modules of a package, by their paths, and what pip records of them."""
    record = []
    for name, text in {f"{package}/__init__.py": "", **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={sha256},{len(text.encode())}")
    info = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "RECORD").write_text("\n".join(record) + "\n")
    return folder
