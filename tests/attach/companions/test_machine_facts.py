"""Facts of the machine: what an engine's own compilers print as their versions, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from precast.attach.companions.companion import COMPANIONS
from precast.attach.companions.machine_facts import Machine, difference

NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright\nBuild cuda_13.0.r13.0/compiler.36424714_0\n"
GCC = "c++ (Debian 14.2.0-19) 14.2.0\nCopyright\n"
SGLANG = COMPANIONS["sglang"]


def program(path: Path, printed: str, status: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nprintf '{printed}'\nexit {status}\n")
    path.chmod(0o755)
    return path


def compilers(**environment: str) -> str:
    return Machine(library="none", environment=environment).facts(SGLANG)["compilers"]


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_both_compilers_are_those_that_the_engine_takes(tmp_path: Path, variable: str) -> None:
    program(tmp_path / "toolkit/bin/nvcc", NVCC)
    program(tmp_path / "path/c++", GCC)
    toolkit = {variable: str(tmp_path / "toolkit"), "PATH": str(tmp_path / "path")}
    assert compilers(**toolkit) == "Build cuda_13.0.r13.0/compiler.36424714_0, c++ (Debian 14.2.0-19) 14.2.0"
    other = program(tmp_path / "clang", "clang version 19.1.7\n")
    assert compilers(**toolkit, CXX=str(other)).endswith(", clang version 19.1.7")


def test_nvcc_is_found_on_the_path(tmp_path: Path) -> None:
    program(tmp_path / "nvcc", NVCC)
    assert compilers(PATH=str(tmp_path)) == "Build cuda_13.0.r13.0/compiler.36424714_0, no c++"


def test_one_that_cannot_be_started_is_none(tmp_path: Path) -> None:
    """The system refuses it: it is neither a program nor a script."""
    program(tmp_path / "c++", "").write_bytes(b"\x7fELF")
    assert compilers(PATH=str(tmp_path), CUDA_HOME=str(tmp_path / "none")) == "no nvcc, no c++"


def test_one_that_is_absent_or_broken_is_another_version(tmp_path: Path) -> None:
    program(tmp_path / "bin/nvcc", "nvcc: error", status=1)
    here = {"CUDA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    assert compilers(**here) == "no nvcc, no c++"
    recorded = Machine(library="none", environment=here).facts(SGLANG)
    program(tmp_path / "c++", GCC)
    reason = difference(SGLANG, recorded, Machine(library="none", environment=here).facts(SGLANG))
    assert (
        reason == "they were recorded with compilers no nvcc, no c++; here it is no nvcc, c++ (Debian 14.2.0-19) 14.2.0"
    )
