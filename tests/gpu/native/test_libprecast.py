"""libprecast on this GPU: a frozen folder serves what the Python loader does, and programs without Python are right."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from precast import loader
from precast.loader.contract.format.config import to_json
from precast.loader.resolve.candidate import Request
from precast.measure.launching.cases import bound
from precast.native.frozen_table import freeze, write_table
from precast.native.libprecast import write_library
from tests.gpu import variants
from tests.helpers.attacks import keep_cubins
from tests.helpers.caches import ffi_folder
from tests.helpers.native.libprecast import request
from tests.helpers.native.libprecast_api import Library, real, tensor, value_of
from tests.helpers.source_tree import ROOT

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed, which compiles libprecast")
    folder = tmp_path_factory.mktemp("libprecast")
    write_library(folder)
    return folder


EXAMPLES = [request("rmsnorm", {"dtype": "bfloat16", "hidden": 4096}), request(config={"dtype": "bfloat16"})]


def frozen_here(caches: list[Path], folder: Path, requests: Iterable[Request]) -> Path:
    """What ``precast native`` makes for this GPU."""
    write_table(freeze(caches, requests, [loader.current_session().machines.on()]), folder)
    return folder


@pytest.fixture(scope="module")
def caches() -> list[Path]:
    return [found.path for found in loader.caches() if found.path]


@pytest.fixture(scope="module")
def folder(caches: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return frozen_here(caches, tmp_path_factory.mktemp("frozen") / "kernels", EXAMPLES)


def test_the_same_choices(files: Path, caches: list[Path], tmp_path: Path) -> None:
    """For the device, with the driver's answers: every variant that serves here, requested by its whole config."""
    wanted = {}
    for op in loader.ops():
        for config in {str(v.config): v.config for v in loader.variants(op)}.values():
            taken = [one.candidate.artifact for one in loader.explain(op, config).accepted]
            if taken:
                plain = {name: to_json(value) for name, value in config.items()}
                wanted[taken[0].key] = request(op, plain)
    assert wanted
    library = Library(files / "lib" / "libprecast.so")
    table = library.open(frozen_here(caches, tmp_path / "kernels", wanted.values()))
    for key, one in wanted.items():
        kernel = library.get(table, one.op, one.config)
        assert library.c.precast_key(kernel).decode() == key
        library.c.precast_release(kernel)


def test_a_launch_on_a_stream(files: Path, folder: Path) -> None:
    import torch

    library = Library(files / "lib" / "libprecast.so")
    kernel = library.get(library.open(folder), config={"dtype": "bfloat16"})
    stream = torch.cuda.Stream()
    x, out = torch.randn(4096, device="cuda").bfloat16(), torch.zeros(4096, device="cuda").bfloat16()
    stream.wait_stream(torch.cuda.current_stream())
    library.call(kernel, tensor(x), tensor(out), real(2.0), stream=stream.cuda_stream)
    stream.synchronize()
    assert torch.equal(out, x * 2)


CUBINS = [(op, v) for op, v in variants.all_runnable() if v.artifact.kind == "cubin" and v.artifact.launchable]


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The caches that have cubins, without their objects."""
    folder = tmp_path_factory.mktemp("cubins")
    places = sorted({v.source.precedence for _, v in CUBINS})
    for place in places:
        shutil.copytree(loader.caches()[place].path, folder / str(place))
        keep_cubins(folder / str(place))
    return [folder / str(place) for place in places]


@pytest.mark.parametrize("case", CUBINS, ids=variants.name)
def test_a_cubin_gives_the_bits_of_the_object(case: Any, files: Path, cubins: list[Path], tmp_path: Path) -> None:
    """At any problem that the author named: tensor maps, clusters, several kernels in a call."""
    import torch

    op, variant = case
    declaration, config = variants.declared(op), variant.artifact.config
    library = Library(files / "lib" / "libprecast.so")
    plain = {name: to_json(value) for name, value in config.items()}
    mine = library.get(library.open(frozen_here(cubins, tmp_path / "kernels", [request(op, plain)])), op, plain)
    assert library.c.precast_key(mine).decode() == variant.artifact.key
    theirs = loader.get(op, dict(config))
    assert theirs.artifact.kind == "object" and declaration.problems and declaration.inputs
    for problem in declaration.problems(config):
        results = []
        for by_libprecast in (True, False):
            values = declaration.inputs(config, problem, device="cuda", seed=3)
            if by_libprecast:
                arguments = [values.get(argument.name) for argument in variant.artifact.signature.passed]
                stream = torch.cuda.current_stream().cuda_stream
                library.call(mine, *map(value_of, arguments), stream=stream)
            else:
                bound(theirs, values)()
            results.append([values[name] for name in declaration.outputs if values.get(name) is not None])
        for one, other in zip(*results, strict=True):
            assert torch.equal(one.view(torch.uint8), other.view(torch.uint8)), problem


@pytest.mark.parametrize("kind", ["object", "cubin"])
@pytest.mark.parametrize("example", ["cpp", "rust"])
def test_the_examples(files: Path, folder: Path, cubins: list[Path], tmp_path: Path, example: str, kind: str) -> None:
    tool, install = {"cpp": ("g++", "apt-get install g++"), "rust": ("cargo", "https://rustup.rs")}[example]
    if subprocess.run([shutil.which(tool) or "false", "--version"], capture_output=True, check=False).returncode:
        pytest.skip(f"{tool} is not installed, or does not run: {install}")
    source = tmp_path / example
    shutil.copytree(ROOT / "examples" / example, source)
    libraries = ffi_folder()
    commands = {
        "cpp": ["make", f"PRECAST={files}", f"DLPACK={libraries / 'include'}"],
        "rust": ["env", f"PRECAST={files}", "cargo", "build", "--release", "--offline"],
    }
    subprocess.run(commands[example], cwd=source, check=True, capture_output=True)
    program = source / {"cpp": "norm", "rust": "target/release/norm"}[example]
    if kind == "cubin":
        if not any(op == "rmsnorm" and v.artifact.config["hidden"] == 4096 for op, v in CUBINS):
            pytest.skip("the kit has no cubins: add a cache of tests/gpu/both.yaml")
        folder = frozen_here(cubins, tmp_path / "kernels", EXAMPLES)
    ffi = f"PRECAST_TVM_FFI={libraries / 'lib' / 'libtvm_ffi.so'}"
    done = subprocess.run(["env", ffi, program, folder, "1000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "1000 rows: the greatest relative difference" in done.stdout, (
        done.stdout + done.stderr
    )
