"""A cache with every feature of the format is read, explained and opened: one written now, and each released one."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from precast.loader.contract.format.assumptions import Assumptions
from precast.loader.contract.format.index import digest
from precast.loader.resolve.cache import Cache
from tests.fixtures.write_cache import write

FIXTURES = Path(__file__).parents[1] / "fixtures" / "caches"
RELEASED: dict[int, str] = {}
"""The digest of the index of each released cache, by format version. Entries are added, and never changed."""


@pytest.fixture(scope="module", params=["present", *RELEASED])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a cache and its wheel, which belongs to this user."""
    path = tmp_path_factory.mktemp("format") / "fixture"
    if request.param == "present":
        write(path)
        return path
    return Path(shutil.copytree(FIXTURES / f"v{request.param}", path))


@pytest.fixture
def cache(folder: Path) -> Path:
    return folder / "cache"


def obstacle() -> str:
    """Why the host code of the caches cannot be opened here; empty where it can."""
    if platform.machine() != "x86_64":
        return f"the host code of the caches is for x86_64, and this is {platform.machine()}"
    if version("apache-tvm-ffi").split(".")[:2] != ["0", "1"]:
        return f"the host code is linked against TVM-FFI 0.1, and {version('apache-tvm-ffi')} is installed"
    return ""


def run(code: str, **environment: str) -> str:
    """The output of a script that finds only the caches of this environment."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PRECAST_", "PYTHONPATH"))}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_released_cache_is_what_was_released() -> None:
    found = {path.name: digest((path / "cache" / "index.json").read_bytes()) for path in FIXTURES.glob("v*")}
    assert found == {f"v{number}": sha256 for number, sha256 in RELEASED.items()}


def test_every_artifact_and_blob_is_read(cache: Path) -> None:
    opened = Cache(cache)
    artifacts = [a for op in opened.index.ops for a in opened.op(op).artifacts]
    assert sorted({(a.kind, a.host.arch if a.host else None) for a in artifacts}, key=str) == [
        ("cubin", None),
        ("object", "aarch64"),
        ("object", "x86_64"),
    ]
    assert {a.blob.encoding for a in artifacts} == {"raw", "zstd", "zstd+dictionary"}
    blobs = [a.blob for a in artifacts] + [runtime.blob for runtime in opened.index.runtimes]
    assert all(len(opened.read(blob)) == blob.size for blob in blobs)


def test_it_is_written_again_as_it_was(cache: Path) -> None:
    """Nothing of it is lost in reading."""
    opened = Cache(cache)
    assert opened.index.encode() == (cache / "index.json").read_bytes()
    for op in opened.index.ops:
        assert opened.op(op).index.encode() == (cache / "ops" / f"{op}.json").read_bytes()


def test_values_mean_what_they_meant(cache: Path) -> None:
    opened = Cache(cache)
    tile, every = opened.op("fixture.tile").artifacts
    assert tile.config == {"dtype": "bfloat16", "causal": True, "tile": (128, 64), "scale": 0.25, "note": None}
    assert str(tile.signature) == "(x: bfloat16[n, 64], out: bfloat16[n, 64], n: int32)"
    assert tile.program is None and not tile.launchable
    assert str(every.signature).endswith("mask: None, mode: 'fast', pair: (n: int32, eps: float32), sizes: (n, 2))")
    (steps,) = opened.op("fixture.steps").artifacts
    assert steps.program is not None and steps.launchable
    leaves = {"x.shape[0]": 256, "x.strides[0]": 64, "x.data": 1 << 40, "eps.bits": 0x3F800000}
    launches = steps.program.launches(leaves)
    assert [(kernel, launch.grid, launch.overlap) for kernel, launch, _ in launches] == [
        ("first", (4, 1, 1), True), ("second", (4, 1, 1), True),
    ]  # fmt: skip
    assert [data.hex() for data in launches[0][2]] == ["00000000000100000400000000000000", "00000040"]
    (measured,) = opened.op("scale").tuning
    assert sorted(measured.times.values()) == [9.0, 10.0]
    assert [(tiling.tile, tiling.at_once) for tiling in measured.tilings.values()] == [({"n": 1024}, 132)] * 2


def test_what_is_assumed_of_a_gpu_is_read(cache: Path) -> None:
    needs = {"multiprocessor_count": 132, "max_active_clusters_2": 66}
    assumed = [a.assumes for a in Cache(cache).op("scale").artifacts if a.assumes]
    assert assumed == [Assumptions(needs=needs, speed={"name": "NVIDIA H200"})]


def test_it_is_explained_for_any_machine(cache: Path) -> None:
    code = "from precast import loader; print(loader.explain('scale', {'dtype': 'fp32'}, target='sm_103a'))"
    text = run(code, PRECAST_CACHE_PATH=str(cache))
    assert "sm_100f" in text and "built for sm_90a" in text and "built for aarch64" in text


def test_the_measurements_choose(cache: Path) -> None:
    if obstacle():
        pytest.skip(obstacle())
    code = (
        "from precast import loader\n"
        "for size in ({}, {'problem': {'n': 4000}}):\n"
        "    chosen = loader.explain('scale', {'dtype': 'fp32'}, target='sm_90a', **size).chosen\n"
        "    print(chosen.artifact.config['threads'])"
    )
    assert run(code, PRECAST_CACHE_PATH=str(cache)).split() == ["256", "128"]


def test_its_host_code_is_opened_and_called(cache: Path) -> None:
    if obstacle():
        pytest.skip(obstacle())
    code = (
        "from precast import loader\n"
        "from precast.loader import session\n"
        "from precast.loader.launch.ffi import entry\n"
        "kernel = loader.get('scale', {'dtype': 'fp32', 'threads': 128}, target='sm_90a')\n"
        "(found,) = [c for c in loader.caches() if c.name == 'fixture']\n"
        "library = session.default.opener.libraries.load(found.cache, kernel.artifact)\n"
        "print(entry(library, kernel.artifact.symbol)(21), kernel.signature)"
    )
    text = run(code, PRECAST_CACHE_PATH=str(cache))
    assert text == "43 (x: float32[n], y: float32[n], factor: float32)\n", "twice the argument, and one"


def test_its_wheel_is_found(folder: Path, tmp_path: Path) -> None:
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import json; from precast import loader\n"
        "(found,) = [c for c in loader.caches() if c.name == 'fixture']\n"
        "print(json.dumps([str(found.path), str(found.error), sorted(found.index.ops)]))"
    )
    path, error, ops = json.loads(run(code, PYTHONPATH=str(tmp_path / "site")))
    assert (Path(path), error, ops) == (
        tmp_path / "site" / "precast_cache_fixture",
        "None",
        ["fixture.steps", "fixture.tile", "scale"],
    )
