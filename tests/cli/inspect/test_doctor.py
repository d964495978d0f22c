"""The doctor: what it sees, how it judges, what it advises."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from precast.build.doctor.facts import PACKAGES, Facts
from precast.cli.inspect.doctor import judge
from precast.loader.command_line.cache_facts import CacheFacts
from precast.loader.command_line.checks import render
from precast.loader.command_line.machine_facts import CachesFacts, DeviceFacts, DriverFacts
from precast.loader.contract.format.target import Capability

INSTALLED: dict[str, str | None] = {
    **dict.fromkeys(PACKAGES, "1.0"),
    "nvidia-cutlass-dsl": "4.8.1",
}
CACHE = CacheFacts(name="default", path="/caches/default", origin="entry point")
HEALTHY = Facts(
    python=(3, 12, 1),
    system="Linux",
    processor="x86_64",
    glibc="glibc 2.36",
    packages=INSTALLED,
    cc="/usr/bin/gcc",
    cxx="/usr/bin/g++",
    cuobjdump=True,
    driver=DriverFacts(
        version=(13, 0), devices=(DeviceFacts(name="NVIDIA H200", capability=Capability(9, 0), processors=132),)
    ),
    caches=CachesFacts(caches=(CACHE,)),
)


def test_a_healthy_machine_has_nothing_to_do() -> None:
    checks = judge(HEALTHY)
    assert {c.status for c in checks} == {"ok"}
    assert not any(c.todo for c in checks)
    assert render(checks).endswith("0 failures, 0 warnings")


@pytest.mark.parametrize(
    ("change", "name", "status", "advice"),
    [
        ({"python": (3, 9, 2)}, "python", "fail", "3.10"),
        ({"python": (3, 15, 0)}, "python", "fail", "3.14"),
        ({"system": "Darwin"}, "system", "fail", "Linux"),
        ({"glibc": ""}, "libc", "fail", "glibc"),
        ({"packages": INSTALLED | {"nvidia-cutlass-dsl": None}}, "nvidia-cutlass-dsl", "fail", "pip install"),
        ({"packages": INSTALLED | {"apache-tvm-ffi": None}}, "apache-tvm-ffi", "fail", "pip install"),
        ({"packages": INSTALLED | {"torch": None}}, "torch", "warn", "precast[torch]"),
        ({"native_code": False}, "call path", "warn", "a wheel of precast-loader with native code"),
        ({"cc": None}, "C compiler", "fail", "gcc"),
        ({"cxx": None}, "C++ compiler", "warn", "apt-get install g++"),
        ({"cuobjdump": False}, "cuobjdump", "fail", "nvidia-cuda-cuobjdump"),
        ({"cuda": "11"}, "CUDA", "fail", "PRECAST_CUDA"),
        (
            {"cuda": "13", "packages": INSTALLED | {"nvidia-cutlass-dsl-libs-cu13": None}},
            "CUDA",
            "fail",
            "nvidia-cutlass-dsl[cu13]",
        ),
        ({"packages": INSTALLED | {"nvidia-cutlass-dsl": "4.9.0"}}, "nvidia-cutlass-dsl", "warn", "==4.8.*"),
        ({"packages": INSTALLED | {"zstandard": None}}, "zstandard", "fail", "pip install"),
        ({"driver": DriverFacts(trouble="no libcuda")}, "GPU", "warn", "driver"),
        ({"driver": replace(HEALTHY.driver, version=(12, 4))}, "driver", "warn", "update"),
        ({"driver": replace(HEALTHY.driver, version=(12, 9)), "cuda": "13"}, "driver", "warn", "update"),
        ({"caches": CachesFacts()}, "caches", "warn", "PRECAST_CACHE_PATH"),
        ({"caches": CachesFacts(trouble="CacheError: x")}, "caches", "fail", "reinstall"),
        (
            {"caches": CachesFacts(caches=(replace(HEALTHY.caches.caches[0], trouble="cut short"),))},
            "cache default",
            "fail",
            "reinstall",
        ),
    ],
)
def test_each_trouble_is_one_line_with_what_to_do(change: dict[str, Any], name: str, status: str, advice: str) -> None:
    checks = judge(replace(HEALTHY, **change))
    (found,) = (c for c in checks if c.status != "ok")
    assert (found.name, found.status) == (name, status)
    assert advice in found.todo


def test_a_python_that_decodes_zstd_needs_no_package_for_it() -> None:
    checks = judge(replace(HEALTHY, own_zstd=True, packages=INSTALLED | {"zstandard": None}))
    assert {c.status for c in checks} == {"ok"}


def test_the_cuda_that_is_built_for_is_named() -> None:
    seen = {c.name: c.seen for c in judge(HEALTHY)}
    assert seen["CUDA"] == "12; PRECAST_CUDA selects 13"
    seen = {c.name: c.seen for c in judge(replace(HEALTHY, cuda="13"))}
    assert seen["CUDA"] == "13; PRECAST_CUDA selects 12"


def doctor(tmp_path: Path, source: str) -> dict[str, Any]:
    """Run the command with a driver of our own making, and return its findings by name."""
    code = tmp_path / "cuda.c"
    code.write_text(source)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1", code], check=True)
    command = [sys.executable, "-m", "precast.cli.main", "doctor", "--json"]
    env = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return {check["name"]: check for check in json.loads(done.stdout)}


COMMON = """
#include <string.h>
int cuDriverGetVersion(int *v) { *v = 13020; return 0; }
int cuGetErrorString(int status, const char **text) { *text = "no CUDA-capable device is detected"; return 0; }
"""


def test_devices_are_read_from_the_driver(tmp_path: Path) -> None:
    source = """
    int cuInit(unsigned flags) { return 0; }
    int cuDeviceGetCount(int *n) { *n = 2; return 0; }
    int cuDeviceGet(int *handle, int ordinal) { *handle = 40 + ordinal; return 0; }
    int cuDeviceGetName(char *name, int size, int handle) {
        strncpy(name, handle == 40 ? "Blue" : "Old", size);
        return 0;
    }
    int cuDeviceGetAttribute(int *value, int which, int handle) {
        *value = which == 16 ? 132 : which == 75 ? (handle == 40 ? 9 : 7) : which == 76 ? (handle == 40 ? 0 : 5) : -1;
        return 0;
    }
    """
    found = doctor(tmp_path, COMMON + source)
    assert found["driver"]["seen"] == "CUDA 13.2"
    assert found["GPU 0"] == {
        "name": "GPU 0", "status": "ok", "todo": "", "code": "",
        "seen": "Blue, compute capability 9.0, 132 multiprocessors",
    }  # fmt: skip
    assert found["GPU 1"]["status"] == "warn" and "7.5" in found["GPU 1"]["seen"]


def test_a_driver_without_a_device_is_said_in_its_own_words(tmp_path: Path) -> None:
    found = doctor(tmp_path, COMMON + "int cuInit(unsigned flags) { return 100; }")
    assert found["driver"]["status"] == "ok"
    assert found["GPU"]["status"] == "warn"
    assert "cuInit: no CUDA-capable device is detected" in found["GPU"]["seen"]


def test_a_broken_cache_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "index.json").write_text("{")
    command = [sys.executable, "-m", "precast.cli.main", "doctor"]
    env = os.environ | {"PRECAST_CACHE_PATH": str(broken)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("fail"))
    assert "cache broken" in line and str(broken) in line
