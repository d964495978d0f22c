"""The examples in C++ and Rust are built as their page says; without a GPU and of a damaged folder they say why not."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from precast.build.plan.planner import plan_of_files
from precast.native.requests_file import read_requests
from tests.helpers.caches import ffi_folder
from tests.helpers.gpu.device import no_device
from tests.helpers.native.libprecast import libprecast_files
from tests.helpers.source_tree import ROOT


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return libprecast_files(tmp_path_factory.mktemp("libprecast"))


@pytest.fixture(scope="module", params=["cpp", "rust"])
def example(request: pytest.FixtureRequest, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp(request.param) / request.param
    shutil.copytree(ROOT / "examples" / request.param, folder)
    tool, install = {"cpp": ("g++", "apt-get install g++"), "rust": ("cargo", "https://rustup.rs")}[request.param]
    if subprocess.run([shutil.which(tool) or "false", "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"{tool} is not installed, or does not run: {install}")
    commands = {
        "cpp": ["make", f"PRECAST={files}", f"DLPACK={ffi_folder() / 'include'}", "CXX=g++ -Werror"],
        "rust": ["cargo", "build", "--release", "--offline"],
    }
    environment = {**os.environ, "PRECAST": str(files), "RUSTFLAGS": "-D warnings"}
    done = subprocess.run(
        commands[request.param], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder.joinpath({"cpp": "norm", "rust": "target/release/norm"}[request.param])


@pytest.mark.slow
def test_without_a_gpu(example: Path, folder: Path) -> None:
    if not no_device():
        pytest.skip("this machine has a GPU: tests/gpu runs the examples on it")
    done = subprocess.run([example, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: libcuda.so.1 is not installed") or "CUDA device" in done.stderr


@pytest.mark.slow
def test_a_damaged_folder(example: Path, folder: Path) -> None:
    (folder / "table.json").write_text("{")
    done = subprocess.run([example, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {folder}/table.json: not JSON") and "make the folder again" in done.stderr


def test_wrong_words(example: Path) -> None:
    done = subprocess.run([example], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage: ")


@pytest.mark.slow
def test_the_manifest_of_the_examples() -> None:
    """It builds what the programs request."""
    plan = plan_of_files([ROOT / "examples" / "native.yaml"])
    requests, _ = read_requests(ROOT / "examples" / "native_requests.yaml")
    assert {variant.op for variant in plan.variants} == {one.op for one in requests} == {"rmsnorm", "scale"}
    for program in ("cpp/norm.cpp", "rust/src/main.rs"):
        texts = re.findall(r"{.*?}", (ROOT / "examples" / program).read_text())
        assert all(json.dumps(one.config) in texts for one in requests)
