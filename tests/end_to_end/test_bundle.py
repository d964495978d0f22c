"""A bundle: collected for a stated Python, and installed with no network into an environment that has nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from precast.build.wheel.wheel import write_wheels
from precast.loader.resolve.cache import Cache
from precast.publish.bundle import File, bundle, platform_of, platforms
from precast.publish.errors import BundleError
from tests.helpers.caches import Native, demo
from tests.helpers.documentation.clean import with_pip

ROOT = Path(__file__).resolve().parents[2]
HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
USE = """
import os
from precast import loader
(found,) = loader.caches()
assert found.error is None and found.origin.startswith("entry point")
kernel = loader.get("scale", {"dtype": "bf16"}, target="sm_90a")
print(kernel._function(4))
"""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, str]:
    """A cache wheel, a folder with the loader's, and the digest of the cache's index."""
    folder = tmp_path_factory.mktemp("parts")
    cache = demo(Native(folder)).write(folder / "demo")
    links = folder / "links"
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", links],
        cwd=ROOT / "loader",
        check=True,
        capture_output=True,
    )
    return write_wheels(cache, folder / "wheels", version="1.0")[0], links, Cache(cache).digest


@pytest.mark.slow
def test_it_installs_without_a_network(parts: tuple[Path, Path, str], tmp_path: Path) -> None:
    wheel, links, digest = parts
    out, clean = tmp_path / "a bundle", tmp_path / "clean"
    files = bundle([wheel], out, python=HERE, find_links=[links])
    assert {"apache-tvm-ffi", "precast-cache-demo", "precast-loader"} <= {f.name for f in files}
    assert sys.version_info >= (3, 14) or "zstandard" in {f.name for f in files}
    assert not any("cutlass" in f.name or f.name == "torch" for f in files)
    assert f"PRECAST_PIN=demo={digest}" in (out / "README.txt").read_text()
    with_pip(clean)
    nowhere = {"PATH": os.environ["PATH"], "PYTHON": str(clean / "bin" / "python"), "HOME": str(tmp_path)}
    nowhere |= dict.fromkeys(("http_proxy", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(["sh", out / "install.sh", "-q"], env=nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    used = subprocess.run(
        [clean / "bin" / "python", "-I", "-c", USE],
        env={"PRECAST_PIN": f"demo={digest}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert used.stdout.strip() == "8", used.stderr

    changed = next(out.glob("apache_tvm_ffi*.whl"))
    changed.write_bytes(changed.read_bytes() + b"x")
    again = subprocess.run(
        ["sh", out / "install.sh", "-q", "--force-reinstall"], env=nowhere, capture_output=True, text=True, check=False
    )
    assert again.returncode != 0 and "HASH" in again.stderr.upper()


@pytest.mark.slow
def test_for_another_python(parts: tuple[Path, Path, str], tmp_path: Path) -> None:
    wheel, links, _ = parts
    other = "3.13" if HERE != "3.13" else "3.12"
    files = bundle([wheel], tmp_path / "out", python=other, platform="manylinux_2_28_x86_64", find_links=[links])
    native = [f.path.name for f in files if f.name == "zstandard"]
    assert native and f"cp{other.replace('.', '')}" in native[0]
    lines = (tmp_path / "out" / "requirements.txt").read_text().splitlines()
    digests = {hashlib.sha256(f.path.read_bytes()).hexdigest() for f in files}
    assert {line.rpartition(":")[2] for line in lines} == digests


def test_what_cannot_be_collected(parts: tuple[Path, Path, str], tmp_path: Path) -> None:
    wheel, _, _ = parts
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    with pytest.raises(BundleError, match="is not empty"):
        bundle([wheel], tmp_path / "full", python=HERE)
    with pytest.raises(BundleError, match=r"write it like 3\.12"):
        bundle([wheel], tmp_path / "x", python="3")
    with pytest.raises(BundleError, match="write it like manylinux_2_28_x86_64"):
        bundle([wheel], tmp_path / "y", python=HERE, platform="linux")
    with pytest.raises(BundleError, match="is not a wheel"):
        bundle([tmp_path / "cache"], tmp_path / "z", python=HERE)


def test_platforms() -> None:
    assert platform_of(Path("precast_cache_x-1-py3-none-manylinux_2_34_x86_64.whl")) == "manylinux_2_34_x86_64"
    assert platform_of(Path("precast_cache_x-1-py3-none-any.whl")) == "manylinux_2_28_x86_64"
    assert platforms("manylinux_2_34_aarch64")[0] == "manylinux_2_34_aarch64"
    assert File.of(Path("a_b-1.0-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl")).name == "a-b"
