"""A manifest is built by another version of the compiler than the one that is installed, brought from an index."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precast import loader
from precast.build.errors import ToolchainError
from precast.build.interpreter import HERE
from precast.build.toolchains.uv import run_uv
from precast.loader import session
from precast.loader.session import Session
from tests.helpers.builds import HEAD

OTHER = "4.7.1"
MANIFEST = f"""
version: 1
name: other
targets: [sm_90a]
path: .
toolchain: {{dsl: "{OTHER}"}}
kernels:
  - {{compile: "mine:compile_two", op: mine.two}}
  - {{kernel: scale, config: {{dtype: float32}}, emit: [object, cubin]}}
"""


@pytest.fixture(scope="module", autouse=True)
def reachable(tmp_path_factory: pytest.TempPathFactory) -> None:
    pytest.importorskip("uv", reason="uv is not installed: pip install 'precast[toolchains]'")
    wanted = tmp_path_factory.mktemp("uv") / "wanted"
    wanted.write_text(f"nvidia-cutlass-dsl=={OTHER}\n")
    try:
        run_uv("pip", "compile", "--quiet", "--no-build", "--python", HERE.executable, wanted)
    except ToolchainError as error:
        pytest.skip(f"no index that uv reaches has nvidia-cutlass-dsl {OTHER}: set UV_DEFAULT_INDEX ({error})")


@pytest.mark.slow
def test_its_kernels_are_found_where_neither_compiler_is(tmp_path: Path) -> None:
    assert HERE.version_of("nvidia-cutlass-dsl") != OTHER
    (tmp_path / "mine.py").write_text(HEAD + "\n\ndef compile_two():\n    return compile_add(2)\n")
    (tmp_path / "m.yaml").write_text(MANIFEST)
    environment = {
        **os.environ,
        "PRECAST_TOOLCHAINS": str(tmp_path / "toolchains"),
        "PRECAST_STORE": str(tmp_path / "store"),
    }
    command = [sys.executable, "-m", "precast.cli.main", "build", str(tmp_path / "m.yaml"), "-j", "1"]
    command += ["-o", str(tmp_path / "cache")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    toolchain = json.loads((tmp_path / "cache" / "index.json").read_text())["toolchain"]
    assert toolchain["nvidia-cutlass-dsl"] == toolchain["lock/nvidia-cutlass-dsl"] == OTHER
    before = session.use(Session(search=str(tmp_path / "cache")))
    try:
        assert loader.ops() == ("mine.two", "scale")
        for op in loader.ops():
            assert loader.get(op, {"dtype": "float32"} if op == "scale" else {}, target="sm_90a")
    finally:
        session.use(before)
