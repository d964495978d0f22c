"""libprecast on this GPU: it chooses what the Python loader chooses, and programs without Python compute right."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from precast import loader
from precast.build.native.libprecast import write_library
from precast.loader.format.config import to_json
from tests.helpers.caches import ffi_folder
from tests.helpers.native.libprecast_api import FLOAT, TENSOR, DLTensor, Library, Value
from tests.helpers.source_tree import ROOT

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libprecast")
    write_library(folder)
    return folder


@pytest.fixture(scope="module")
def search() -> str:
    return ":".join(str(found.path) for found in loader.caches())


def test_the_same_choices(files: Path, search: str) -> None:
    """For the device, with the driver's answers: every variant that serves here, asked for by its whole config."""
    library = Library(files / "lib" / "libprecast.so")
    caches, asked = library.open(search), 0
    for op in loader.ops():
        for config in {str(v.config): v.config for v in loader.variants(op) if v.artifact.kind == "object"}.values():
            taken = [one.candidate.artifact for one in loader.explain(op, config).accepted]
            if not taken or taken[0].kind != "object":
                continue
            kernel = library.get(caches, op, {name: to_json(value) for name, value in config.items()})
            assert library.c.precast_key(kernel).decode() == taken[0].key
            library.c.precast_release(kernel)
            asked += 1
    assert asked > 0


def test_a_launch_on_a_stream(files: Path, search: str) -> None:
    import torch

    library = Library(files / "lib" / "libprecast.so")
    kernel = library.get(library.open(search), config={"dtype": "bfloat16"})
    stream = torch.cuda.Stream()
    x, out = torch.randn(4096, device="cuda").bfloat16(), torch.zeros(4096, device="cuda").bfloat16()
    size, step = (ctypes.c_int64 * 1)(4096), (ctypes.c_int64 * 1)(1)
    views = [
        DLTensor(data=t.data_ptr(), device_type=2, rank=1, code=4, bits=16, lanes=1, shape=size, strides=step)
        for t in (x, out)
    ]
    values = [Value(kind=TENSOR) for _ in views]
    for value, view in zip(values, views, strict=True):
        value.content.pointer = ctypes.addressof(view)
    factor = Value(kind=FLOAT)
    factor.content.real = 2.0
    stream.wait_stream(torch.cuda.current_stream())
    library.call(kernel, *values, factor, stream=stream.cuda_stream)
    stream.synchronize()
    assert torch.equal(out, x * 2)


@pytest.mark.parametrize("example", ["cpp", "rust"])
def test_the_examples(files: Path, search: str, tmp_path: Path, example: str) -> None:
    tool, install = {"cpp": ("g++", "apt-get install g++"), "rust": ("cargo", "https://rustup.rs")}[example]
    if subprocess.run([shutil.which(tool) or "false", "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"{tool} is not installed, or does not run: {install}")
    folder = tmp_path / example
    shutil.copytree(ROOT / "examples" / example, folder)
    libraries = ffi_folder()
    commands = {
        "cpp": ["make", f"PRECAST={files}", f"DLPACK={libraries / 'include'}"],
        "rust": ["env", f"PRECAST={files}", "cargo", "build", "--release", "--offline"],
    }
    subprocess.run(commands[example], cwd=folder, check=True, capture_output=True)
    program = folder / {"cpp": "norm", "rust": "target/release/norm"}[example]
    ffi = f"PRECAST_TVM_FFI={libraries / 'lib' / 'libtvm_ffi.so'}"
    done = subprocess.run(["env", ffi, program, search, "1000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "1000 rows: the greatest relative difference" in done.stdout, (
        done.stdout + done.stderr
    )
