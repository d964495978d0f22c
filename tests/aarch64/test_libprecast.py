"""libprecast on an emulated aarch64 host: a folder that x86-64 made is read, checked, opened, launched by cubins.

TVM-FFI and the driver are stand-ins; what they are given is what a GB200's would be.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from precast.loader.contract.format.artifact import Host
from precast.loader.machine.machine import Machine, Machines
from precast.native.libprecast import compile_sources
from tests.helpers.attacks import edit
from tests.helpers.caches import NATIVE, CacheWriter, artifact, ffi_folder
from tests.helpers.gpu.programs import PROGRAM, SIGNATURE
from tests.helpers.native.libprecast import (
    LAUNCH_ERROR,
    NO_CUDA_DEVICE,
    OK,
    VARIANT_NOT_FOUND,
    LibprecastReader,
    frozen,
    request,
)

GCC, QEMU, SYSTEM = "aarch64-linux-gnu-gcc", "qemu-aarch64-static", Path("/usr/aarch64-linux-gnu")
MISSING = [name for name in (GCC, QEMU) if shutil.which(name) is None]
GOOD = "t1:0:2:32:1:4096;17,4;4,1 n t1:0:10:8:1:64;17;1 i2 b1 f1.5 f-2.0"
KERNELS = b"kernels first 20 1 4; second 20 1 4"

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"{', '.join(MISSING)} missing: apt-get install gcc-aarch64-linux-gnu qemu-user-static"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libprecast with the program that asks it, and the stand-ins, for aarch64."""
    made = tmp_path_factory.mktemp("aarch64")
    compile_sources(made / "reader", (NATIVE / "reader.c", "-ldl", "-lpthread", "-lm"), compiler=GCC)
    for name, source in {"libcuda.so": "launches.c", "libtvm_ffi.so": "tvm_ffi.c"}.items():
        include = f"-I{ffi_folder() / 'include'}"
        subprocess.run([GCC, "-shared", "-fPIC", "-O1", include, NATIVE / source, "-o", made / name], check=True)
    run = made / "run"
    run.write_text(f"#!/bin/sh\nPRECAST_TVM_FFI={made}/libtvm_ffi.so exec {QEMU} -L {SYSTEM} {made}/reader\n")
    run.chmod(0o755)
    return made


@pytest.fixture
def reader(folder: Path) -> Iterator[LibprecastReader]:
    made = LibprecastReader(folder / "run")
    yield made
    made.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """What an x86-64 host built and froze: the object is for its own host, the cubin for each."""
    writer, x86 = CacheWriter(), Host(arch="x86_64", glibc="2.17")
    writer.runtime("libprecast-rt-0000000000000001.so", b"not code", x86)
    first = artifact(writer.keep(KERNELS, "raw"), {}, symbol="first", kind="cubin", host=None)
    cubin = replace(first, signature=SIGNATURE, program=PROGRAM)
    writer.op("op", [artifact(writer.keep(b"not code"), {}, host=x86), cubin], keys=())
    here = Machines(Machine(arch="x86_64", glibc=(2, 36), tvm_ffi="0.1.15"))
    return frozen(writer.write(tmp_path / "cache"), tmp_path / "frozen", request("op"), machines=here)


def test_the_cubin_is_taken(reader: LibprecastReader, root: Path) -> None:
    kinds = {row["key"]: row["kind"] for row in json.loads((root / "table.json").read_bytes())["kernels"]}
    assert [*kinds.values()] == ["object", "cubin"]
    assert kinds[reader.ask(root, "op").value()] == "cubin"


def test_up_to_the_driver(reader: LibprecastReader, root: Path) -> None:
    assert reader.ask(root, "op", command="call", arguments=GOOD).status == NO_CUDA_DEVICE


def test_a_launch(reader: LibprecastReader, root: Path, folder: Path) -> None:
    answer = reader.ask(root, "op", command="call", target=None, cuda=folder / "libcuda.so", arguments=GOOD)
    assert answer.status == OK, answer
    wrong = GOOD.replace("i2", "i3")
    answer = reader.ask(root, "op", command="call", target=None, cuda=folder / "libcuda.so", arguments=wrong)
    assert answer.status == LAUNCH_ERROR and "expected to be divisible by 2" in answer.text


def test_objects_of_another_host_alone(reader: LibprecastReader, root: Path) -> None:
    edit(root / "table.json", lambda table: table["requests"][0].update(kernels=[0]))
    answer = reader.ask(root, "op")
    assert answer.status == VARIANT_NOT_FOUND and "built for x86_64 hosts, this one is aarch64" in answer.text
