"""A build on an aarch64 host, emulated: the same device code, and caches that merge into one with two wheels.

``make aarch64`` makes the system that this needs, and walks the whole path.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from precast.build.link import elf
from precast.loader.resolve.cache import Cache
from tests.aarch64.system import REPOSITORY, System, constraints, obstacle

SYSTEM = System(REPOSITORY / ".work" / "aarch64" / "root")
MANIFEST = "version: 1\nname: both\ntargets: [sm_100a]\nkernels:\n  - {kernel: scale, config: {dtype: [bfloat16]}}\n"


def _reason() -> str:
    made = (SYSTEM.root / "opt" / "builder").is_dir()
    return obstacle() or ("" if made else "there is no system in .work/aarch64 yet: make aarch64")


@pytest.mark.slow
@pytest.mark.skipif(bool(_reason()), reason=_reason() or "it runs")
def test_a_build_under_emulation_is_the_other_half_of_a_cache(tmp_path: Path) -> None:
    inside = SYSTEM.root / "tmp" / tmp_path.name
    shutil.rmtree(inside, ignore_errors=True)
    (tmp_path / "both.yaml").write_text(MANIFEST)
    words = ["-m", "precast.cli.main", "build"]

    def here(*arguments: object) -> str:
        command = [sys.executable, "-m", "precast.cli.main", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    here("build", tmp_path / "both.yaml", "-o", tmp_path / "x86", "--store", tmp_path / "store", "-j", "1")
    inside.mkdir()
    (inside / "both.yaml").write_text(MANIFEST)
    folder = f"/tmp/{inside.name}"
    options = ["-o", f"{folder}/arm", "--store", f"{folder}/store", "-j", "1"]
    done = SYSTEM.run(
        SYSTEM.python("builder"), *words, f"{folder}/both.yaml", *options, PYTHONPATH="/src/src", timeout=900
    )
    assert done.returncode == 0, done.stderr[-3000:]
    here("merge", tmp_path / "x86", inside / "arm", "-o", tmp_path / "merged")
    cache = Cache(tmp_path / "merged")
    one, other = cache.op("scale").artifacts
    assert one.host is not None and other.host is not None and {one.host.arch, other.host.arch} == {"x86_64", "aarch64"}
    assert elf.embedded(cache.read(one.blob)) == elf.embedded(cache.read(other.blob)) != ()
    assert one.signature == other.signature and one.resources == other.resources
    assert here("wheel", tmp_path / "merged", "-o", tmp_path / "dist").count("_aarch64.whl") == 1
    names = sorted(wheel.name.rpartition("_")[2] for wheel in (tmp_path / "dist").glob("*.whl"))
    assert names == ["64.whl", "aarch64.whl"]


def test_pins_of_another_machine_are_left_out() -> None:
    pins = constraints((REPOSITORY / "constraints.txt").read_text())
    assert "nvidia-cuda-cuobjdump==13.4.92" in pins and not any(pin.startswith("torch==") for pin in pins)
