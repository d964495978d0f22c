"""What the doctor says of real caches, each with one thing wrong; of the machine only the driver is a stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from precast.loader.contract.format.index import VERSION
from tests.helpers.attach.mini_library import write_library
from tests.helpers.caches import CacheWriter, Native, artifact, demo
from tests.helpers.source_tree import ROOT

DRIVER = """
#include <string.h>
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *v) { *v = %d; return 0; }
int cuGetErrorString(int status, const char **text) { *text = "an error"; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGet(int *handle, int ordinal) { *handle = ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int handle) { strncpy(name, "Blue", size); return 0; }
int cuDeviceGetAttribute(int *value, int which, int handle) {
    *value = which == 75 ? %d : which == 76 ? 0 : 100;
    return 0;
}
"""


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> Native:
    return Native(tmp_path_factory.mktemp("native"))


def doctor(*caches: Path, code: str = "", **env: str) -> dict[str, dict[str, str]]:
    """The findings by name; with ``code``, run by that script in place of the command."""
    command = ["-S", "-c", code] if code else ["-m", "precast.cli.main", "doctor", "--json"]
    variables = os.environ | {"PRECAST_CACHE_PATH": ":".join(map(str, caches))} | env
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=variables)
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert done.returncode == any(check["status"] == "fail" for check in found)
    return {check["name"]: check for check in found}


def with_driver(folder: Path, *, version: int = 13000, major: int = 9) -> str:
    """A folder with the driver of a machine that has two equal GPUs."""
    (folder / "cuda.c").write_text(DRIVER % (version, major))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", folder / "cuda.c"], check=True)
    return str(folder)


def test_a_gpu_that_a_cache_serves(native: Native, tmp_path: Path) -> None:
    cache = demo(native).write(tmp_path / "demo")
    found = doctor(cache, LD_LIBRARY_PATH=with_driver(tmp_path))
    assert (found["cache demo"]["status"], found["cache demo, GPU 0"]["status"]) == ("ok", "ok")
    assert found["cache demo, GPU 0"]["seen"] == "runs 7 of 13 artifacts"
    assert "cache demo, GPU 1" not in found, "a GPU like another is not told again"


def test_a_gpu_of_another_architecture(native: Native, tmp_path: Path) -> None:
    cache = demo(native).write(tmp_path / "demo")
    found = doctor(cache, LD_LIBRARY_PATH=with_driver(tmp_path, major=12))["cache demo, GPU 0"]
    assert found["status"] == "warn" and "build the cache for this GPU" in found["todo"]
    assert found["seen"].startswith("Blue, 12.0, runs none of 13 artifacts: built for sm_")
    assert "built for sm_90a, this GPU is 12.0" in found["seen"]


def test_an_old_driver(native: Native, tmp_path: Path) -> None:
    writer = demo(native)
    writer.toolchain["cuda"] = "12.9"
    cache = writer.write(tmp_path / "demo")
    found = doctor(cache, LD_LIBRARY_PATH=with_driver(tmp_path, version=11080))
    assert (found["driver"]["status"], found["driver"]["todo"]) == ("warn", "update the NVIDIA driver")
    assert "made with CUDA 12.9, this driver is for CUDA 11.8" in found["cache demo, GPU 0"]["seen"]


def test_no_gpu(native: Native, tmp_path: Path) -> None:
    cache = demo(native).write(tmp_path / "demo")
    (tmp_path / "cuda.c").write_text(DRIVER.replace("*n = 2", "*n = 0") % (13000, 9))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", tmp_path / "cuda.c"], check=True)
    found = doctor(cache, LD_LIBRARY_PATH=str(tmp_path))
    assert found["GPU"]["status"] == "warn" and "is CUDA_VISIBLE_DEVICES empty?" in found["GPU"]["seen"]
    assert "cache demo, GPU 0" not in found


def test_two_caches_with_one_op(native: Native, tmp_path: Path) -> None:
    one, two = demo(native, name="one").write(tmp_path / "one"), demo(native, name="two").write(tmp_path / "two")
    found = doctor(two, one)["shared ops"]
    assert found["status"] == "warn" and "change the order" in found["todo"]
    assert found["seen"] == (
        f"scale, twice in two at {two} and one at {one}; 13 common variants: the loader uses two at {two}, because "
        "it is first in PRECAST_CACHE_PATH"
    )


def test_two_caches_that_divide_an_op(native: Native, tmp_path: Path) -> None:
    caches = []
    for name, target in (("hopper", "sm_90a"), ("blackwell", "sm_100a")):
        writer = demo(native, name=name)
        writer.op("scale", [a for a in writer.ops["scale"].artifacts if str(a.target) == target])
        del writer.ops["twice"]
        caches.append(writer.write(tmp_path / name))
    found = doctor(*caches)["shared ops"]
    assert found["status"] == "ok" and found["seen"].endswith("they have no variant in common")


def test_a_cache_of_a_newer_format(native: Native, tmp_path: Path) -> None:
    index = demo(native).write(tmp_path / "demo") / "index.json"
    index.write_text(json.dumps({**json.loads(index.read_bytes()), "version": VERSION + 1}))
    found = doctor(tmp_path / "demo")["cache demo"]
    assert (found["status"], found["code"]) == ("fail", "PCL04")
    assert f"the cache has format version {VERSION + 1}; this loader reads version {VERSION}" in found["seen"]
    assert found["todo"].startswith("pip install --upgrade precast-loader")


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null"])
def test_an_index_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo" / "index.json").write_text(text)
    assert doctor(tmp_path / "demo")["cache demo"]["todo"].startswith("reinstall or uninstall")


def test_an_index_that_nobody_writes(tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    os.mkfifo(tmp_path / "demo" / "index.json")
    assert "not a regular file" in doctor(tmp_path / "demo")["cache demo"]["seen"]


@pytest.mark.parametrize("part", ["", "index.json"])
def test_a_cache_that_everyone_may_write(native: Native, tmp_path: Path, part: str) -> None:
    cache = demo(native).write(tmp_path / "demo")
    (cache / part).chmod(0o777)
    found = doctor(cache)["cache demo"]
    assert (found["status"], found["code"]) == ("fail", "PCL04")
    assert "can be written by everyone" in found["seen"] and found["todo"].startswith(f"chmod -R o-w {cache}")


def test_a_damaged_op(native: Native, tmp_path: Path) -> None:
    """The index is whole: it is noticed where the cache is judged for a GPU."""
    cache = demo(native).write(tmp_path / "demo")
    (cache / "ops" / "scale.json").write_text("{}")
    found = doctor(cache, LD_LIBRARY_PATH=with_driver(tmp_path))["cache demo"]
    assert (found["status"], found["code"]) == ("fail", "PCL05") and "scale.json is damaged" in found["seen"]


@pytest.mark.parametrize(("package", "purpose"), [("apache-tvm-ffi", "launching"), ("zstandard", "reading a cache")])
def test_a_dependency_of_the_loader_that_is_missing(tmp_path: Path, package: str, purpose: str) -> None:
    """The installed packages but for one, as links."""
    if package == "zstandard" and sys.version_info >= (3, 14):
        pytest.skip("this Python decodes zstd by itself")
    names = (package.replace("-", "_"), package.removeprefix("apache-").replace("-", "_"))
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.startswith(names):
            (tmp_path / entry.name).symlink_to(entry)
    code = f"import sys; sys.path[:0] = ['{ROOT}/src', '{tmp_path}']\nfrom precast.cli import main\n"
    found = doctor(code=code + "main.run(['doctor', '--json'])", PYTHONPATH="")
    assert found[package]["status"] == "fail" and found[package]["todo"] == f"pip install {package}"
    assert found[package]["seen"] == f"not installed; {purpose} needs it"


def recorded(native: Native, folder: Path, version: str, source: str) -> Path:
    """A cache with one kernel of a library's, as a build of a recording writes it."""
    writer = CacheWriter(name="attached")
    writer.runtime(*native.runtime())
    config = {"library_version": version, "library_source": source}
    writer.op("attach.quack.norm_1a2b3c4d", [artifact(writer.keep(native.entry()), config)], keys=())
    return writer.write(folder / "attached")


def test_a_library_in_a_version_that_no_cache_was_recorded_for(native: Native, tmp_path: Path) -> None:
    pytest.importorskip("precast.attach")
    site = write_library(tmp_path / "site", {}, version="0.6.5", package="quack", distribution="quack-kernels")
    cache = recorded(native, tmp_path, "0.6.4", "ab" * 32)
    found = doctor(cache, PYTHONPATH=str(site))["quack-kernels"]
    assert found["status"] == "warn"
    assert found["seen"].startswith("0.6.5 is installed, but the caches were recorded with 0.6.4: the caches serve it")
    assert "'quack-kernels==0.6.4'; or record the program again" in found["todo"]
    changed = recorded(native, tmp_path, "0.6.5", "ab" * 32)
    found = doctor(changed, PYTHONPATH=str(site))["quack-kernels"]
    assert found["status"] == "warn" and "its files differ from those" in found["seen"]


def test_a_library_that_caches_were_recorded_for(native: Native, tmp_path: Path) -> None:
    pytest.importorskip("precast.attach")
    site = write_library(tmp_path / "site", {}, version="0.6.5", package="quack", distribution="quack-kernels")
    script = "from precast.attach.guards import guard_of; print(guard_of('quack-kernels', 'quack').source)"
    guard = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": str(site)},
    )  # fmt: skip
    cache = recorded(native, tmp_path, "0.6.5", guard.stdout.strip())
    found = doctor(cache, PYTHONPATH=str(site))["quack-kernels"]
    assert (found["status"], found["seen"]) == ("ok", "0.6.5, which caches were recorded with")
