"""A folder of tiny wheels, from which toolchains are made without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.toolchains.tiny_wheels import make_wheel

pytest.importorskip("uv", reason="uv is not installed: pip install 'precast[toolchains]'")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a toolchain always asks for, with nothing in it; and a library in two versions."""
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    folder = tmp_path / "wheels"
    for version in ("4.7.1", "4.8.1"):
        libraries = [f"nvidia-cutlass-dsl-libs-cu12=={version}"]
        make_wheel(folder, "nvidia-cutlass-dsl", version, {"cutlass/__init__.py": b""}, requires=libraries)
        for cuda in (12, 13):
            make_wheel(folder, f"nvidia-cutlass-dsl-libs-cu{cuda}", version)
    make_wheel(folder, "apache-tvm-ffi", "0.1.15")
    for version in ("1.0", "2.0"):
        make_wheel(folder, "acme-norms", version, {"acme_norms.py": f"VERSION = {version!r}\n".encode()})
    make_wheel(folder, "only-old", "1.0", requires=["acme-norms==1.0"])
    return folder
