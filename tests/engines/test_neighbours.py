"""The builder, and so the loader that it requires, resolve beside the packages that they are installed beside: at the
versions that are supported, and at the newest. That takes metadata alone; no package is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from precast.kernels.adapters.attention.library import FLASH
from precast.kernels.adapters.flashinfer.library import FLASHINFER
from precast.kernels.adapters.quack.library import QUACK
from tests.helpers.source_tree import ROOT

PREPARE = (ROOT / "tests" / "engines" / "prepare.sh").read_text()
ENGINES = re.findall(r"(?:vllm|sglang)==[\w.]+", PREPARE)
NEWEST = ("vllm", "sglang", "tilelang", "flashinfer-python", "quack-kernels", "flash-attn-4", "kernels", "jax")
PRECAST = (str(ROOT / "loader"), str(ROOT / "attach"), str(ROOT))
pytestmark = pytest.mark.slow


def resolve(*requirements: str) -> subprocess.CompletedProcess[str]:
    """What uv would install; pre-releases only where a package asks for one by name."""
    early = ["--prerelease=allow"] if any(re.match("sglang|flash-attn-4", one) for one in requirements) else []
    command = [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "compile",
        "-q",
        "--no-annotate",
        "--no-header",
        *early,
    ]
    return subprocess.run(
        [*command, "--python", sys.executable, "-"],
        input="\n".join(requirements),
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
        capture_output=True,
        text=True,
        check=False,
    )


@cache
def unreachable() -> str:
    """Why no index can be read; empty if one can."""
    done = resolve("packaging")
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def resolved(*requirements: str) -> dict[str, str]:
    """The versions that uv chooses, by name."""
    if unreachable():
        pytest.skip(f"no package index can be read: {unreachable()}")
    done = resolve(*requirements)
    assert done.returncode == 0, done.stderr
    return dict(re.findall(r"^([\w.-]+)==([\w.+-]+)", done.stdout, re.MULTILINE))


@pytest.mark.parametrize("neighbour", [*ENGINES, str(FLASHINFER), str(QUACK), str(FLASH)])
def test_beside_the_version_that_is_supported(neighbour: str) -> None:
    name, _, version = neighbour.partition("==")
    versions = resolved(neighbour, *PRECAST)
    assert versions[name] == version and "apache-tvm-ffi" in versions


@pytest.mark.parametrize("neighbour", NEWEST)
def test_beside_the_newest_version(neighbour: str) -> None:
    """uv falls back on an older version of a neighbour that pins something else: that is a conflict, too."""
    alone, beside = resolved(neighbour), resolved(neighbour, *PRECAST)
    assert beside[neighbour] == alone[neighbour]


def test_both_engines_are_among_them() -> None:
    assert [engine.partition("==")[0] for engine in ENGINES] == ["vllm", "sglang"]


def test_a_conflict_is_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "neighbour"\nversion = "1"\ndependencies = ["apache-tvm-ffi==0.1.10"]\n'
    )
    if unreachable():
        pytest.skip(unreachable())
    assert "apache-tvm-ffi==0.1.10" in resolve(str(tmp_path), *PRECAST).stderr
