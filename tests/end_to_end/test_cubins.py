"""A cache of cubins: built without a word about launches, without host code, one wheel for all hosts."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precast.loader.contract.format.target import Capability
from precast.loader.launch.kernel_opener import KernelOpener
from precast.loader.machine.machine import Machine
from precast.loader.resolve.cache import Cache
from precast.loader.resolve.candidate import CachedOp, Request
from precast.loader.resolve.judge import resolve
from tests.aarch64.host_code import host_code
from tests.end_to_end.conftest import USER_MODULE, Run, manifest
from tests.helpers.caches import Native
from tests.helpers.echo import needs_call_path
from tests.helpers.native.libprecast import NO_CUDA_DEVICE, LibprecastReader, frozen, libprecast, program, request

__all__ = ["libprecast", "program"]

ARM = Machine(arch="aarch64", glibc=(2, 34), tvm_ffi="0.1.15", capability=Capability(9, 0), driver=(13, 0))
OPEN = """
from precast import loader
(op,) = loader.ops()
kernel = loader.get(op, {"dtype": "bfloat16"}, target="sm_90a")
assert kernel.artifact.kind == "cubin" and kernel.artifact.host is None
try:
    kernel(None, None, 1.0)
except loader.NoCudaDevice as error:
    print("typed:", type(error).__name__)
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("user")
    (folder / "mykernels.py").write_text(USER_MODULE)
    return manifest(folder, "plain")


@pytest.fixture(scope="module")
def built(asked: Path, precast: Run) -> Path:
    made = precast("build", asked, "-o", asked.parent / "cache", "--emit", "cubin", "-j", 1)
    assert made.returncode == 0 and "unlaunchable" not in made.stdout, made.stderr + made.stdout
    return asked.parent / "cache"


@pytest.mark.slow
def test_its_launch_was_found(built: Path) -> None:
    cache = Cache(built)
    for op in cache.index.ops:
        for artifact in cache.op(op).artifacts:
            assert artifact.kind == "cubin" and artifact.program is not None
            (step,) = artifact.program.steps
            assert step.grid[0] == ("ceil_div", "x.shape[0]", 128) or "x.shape[0]" in str(step.grid[0])
            assert {w.value for p in step.parameters for w in p.words} >= {"x.data", "y.data", "value.bits"}


@pytest.mark.slow
def test_it_holds_no_host_code(built: Path, tmp_path: Path, precast: Run) -> None:
    """Every ELF file in its unzipped wheel, and in the decoded blobs, is device code."""
    cache = Cache(built)
    assert not cache.index.runtimes and not {"gcc", "ld"} & cache.index.toolchain.keys()
    assert precast("wheel", built, "-o", tmp_path).returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    hosts, devices = host_code(wheel, tmp_path / "unzipped")
    blobs = {artifact.blob.sha256 for op in cache.index.ops for artifact in cache.op(op).artifacts}
    assert not hosts and devices == len(blobs)


def test_host_code_in_objects_is_found(asked: Path, tmp_path: Path, precast: Run) -> None:
    """In the decoded blobs of a cache of objects: each variant, and the library that they are linked against."""
    assert precast("build", asked, "-o", tmp_path / "cache", "--emit", "object", "-j", 1).returncode == 0
    assert precast("wheel", tmp_path / "cache", "-o", tmp_path).returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    hosts, _ = host_code(wheel, tmp_path / "unzipped")
    decoded = {name.removeprefix("decoded ") for name in hosts if name.startswith("decoded ")}
    assert decoded == {file.name for file in (tmp_path / "cache" / "blobs").iterdir()}


def test_its_wheel_is_for_every_host(built: Path, tmp_path: Path, precast: Run) -> None:
    assert precast("wheel", built, "-o", tmp_path).returncode == 0
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    installed = tmp_path / "installed"
    shutil.unpack_archive(wheel, installed, "zip")
    environment = {"PYTHONPATH": str(installed), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", OPEN], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "typed: NoCudaDevice" in done.stdout, done.stderr


def test_it_is_resolved_on_another_processor(built: Path) -> None:
    cache = Cache(built)
    (op,) = cache.index.ops
    source = CachedOp(cache="c", precedence=0, index=cache.index, op=cache.op(op))
    found = resolve(Request(op=op, config={"dtype": "bfloat16"}), ARM, [source])
    assert found.chosen is not None and found.chosen.artifact.kind == "cubin", str(found)


def test_programs_without_python_take_it(built: Path, tmp_path: Path, libprecast: LibprecastReader) -> None:
    """They open the cubin that the Python loader takes, and call it up to the driver."""
    cache = Cache(built)
    (op,) = cache.index.ops
    for artifact in cache.op(op).artifacts:
        config = {"dtype": artifact.config["dtype"]}
        folder = frozen(built, tmp_path / artifact.key, request(op, config))
        assert libprecast.ask(folder, op, config).value() == artifact.key
        called = libprecast.ask(folder, op, config, command="call", arguments="n n f1.5")
        assert called.status == NO_CUDA_DEVICE, called


def test_check_knows_it(asked: Path, built: Path, precast: Run) -> None:
    assert precast("check", asked, built, "--emit", "cubin").returncode == 0
    missing = precast("check", asked, built)
    assert missing.returncode == 1 and "object" in missing.stdout
    wrong = precast("build", asked, "-o", built, "--emit", "ptx")
    assert wrong.returncode == 2 and "write object or cubin" in wrong.stderr


def test_those_of_two_hosts_are_one_cache(built: Path, tmp_path: Path, precast: Run) -> None:
    """As 'merge' makes it of builds on an x86-64 and on an aarch64 host: nothing of a host is in either."""
    other = Path(shutil.copytree(built, tmp_path / "arm"))
    merged = tmp_path / "merged"
    done = precast("merge", built, other, "-o", merged)
    assert done.returncode == 0, done.stderr
    assert (merged / "index.json").read_bytes() == (built / "index.json").read_bytes()


@needs_call_path
def test_it_is_opened_without_a_device(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from precast.loader.launch import native_program

    monkeypatch.setattr(native_program, "LIBRARY", str(Native(tmp_path).launches()))
    cache = Cache(built)
    (op,) = cache.index.ops
    kernel = KernelOpener(lambda device: ARM).open(cache, op, cache.op(op).artifacts[0])
    assert kernel.launcher is not None and "NativeProgram" in repr(kernel.launcher)
