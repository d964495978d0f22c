"""A cache that a released version wrote is read, explained and opened by this one."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest

from precast.loader.format.assumptions import Assumptions
from precast.loader.format.index import VERSION, digest
from precast.loader.resolve.cache import Cache

FIXTURES = Path(__file__).parents[1] / "fixtures" / "caches"
DIGESTS = {
    1: "d1d5eb46cc8e14e212dd81212210f12beb4c5fa387932a4b4fa435f17e8d2872",
    2: "750235793d3e79c55a51233985f2eaa249137ef8398c29ad57e3cb3f4e9f2aeb",
    3: "6b8038b4ad025095bc1534848b51f6562b5007aeebd4e5310eac9ac7a435c71d",
    4: "94a5d4b1dafdc2deccee90ba02545f41b78c7172e2a99249f6fb245cb509e8ab",
}
"""The digest of each fixture's index, which vouches for every byte below it. Lines are added, and never changed."""


@dataclass(frozen=True)
class Old:
    """One fixture: the version of its format, and a copy of it that belongs to this user."""

    version: int
    folder: Path

    @property
    def cache(self) -> Path:
        return self.folder / "cache"


@pytest.fixture(params=sorted(DIGESTS))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Old:
    number: int = request.param
    return Old(number, Path(shutil.copytree(FIXTURES / f"v{number}", tmp_path / "old")))


def obstacle() -> str:
    """Why the host code of the fixtures cannot be opened here; empty where it can."""
    if platform.machine() != "x86_64":
        return f"the fixtures hold host code with entries for x86_64, and this is {platform.machine()}"
    if version("apache-tvm-ffi").split(".")[:2] != ["0", "1"]:
        return f"the fixtures are linked against TVM-FFI 0.1, and {version('apache-tvm-ffi')} is installed"
    return ""


def run(code: str, **environment: str) -> str:
    """What a script prints that sees the caches of this environment alone."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PRECAST_", "PYTHONPATH"))}
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env={**kept, **environment}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_version_of_the_format_has_a_fixture() -> None:
    assert sorted(DIGESTS) == list(range(1, VERSION + 1)), "add one: see tests/fixtures/caches/README.md"


def test_it_is_the_cache_that_was_released(old: Old) -> None:
    assert digest((old.cache / "index.json").read_bytes()) == DIGESTS[old.version]


def test_every_artifact_and_blob_is_read(old: Old) -> None:
    cache = Cache(old.cache)
    artifacts = [a for op in cache.index.ops for a in cache.op(op).artifacts]
    assert sorted({(a.kind, a.host.arch if a.host else None) for a in artifacts}, key=str) == [
        ("cubin", None),
        ("object", "aarch64"),
        ("object", "x86_64"),
    ]
    assert {a.blob.encoding for a in artifacts} == {"raw", "zstd", "zstd+dictionary"}
    blobs = [a.blob for a in artifacts] + [runtime.blob for runtime in cache.index.runtimes]
    assert all(len(cache.read(blob)) == blob.size for blob in blobs)


def test_it_is_written_again_as_it_was(old: Old) -> None:
    """Nothing of it is lost in reading."""
    cache = Cache(old.cache)
    assert cache.index.encode() == (old.cache / "index.json").read_bytes()
    for op in cache.index.ops:
        assert cache.op(op).encode() == (old.cache / "ops" / f"{op}.json").read_bytes()


def test_values_mean_what_they_meant(old: Old) -> None:
    cache = Cache(old.cache)
    tile, bare = cache.op("fixture.tile").artifacts
    assert tile.config == {"dtype": "bfloat16", "causal": True, "tile": (128, 64), "scale": 0.25, "note": None}
    assert str(tile.signature) == "(x: bfloat16[n, 64], out: bfloat16[n, 64], n: int32)"
    assert tile.plan is not None
    assert tile.plan.launch({"x.shape[0]": 1000}).grid == (8, 1, 1)
    assert bare.plan is None
    assert str(bare.signature).endswith("mask: None, mode: 'fast', pair: (n: int32, eps: float32), sizes: (n, 2))")
    if old.version >= 4:
        (steps,) = cache.op("fixture.steps").artifacts
        assert steps.program is not None and steps.launchable
        leaves = {"x.shape[0]": 256, "x.strides[0]": 64, "x.data": 1 << 40, "eps.bits": 0x3F800000}
        made = steps.program.launches(leaves)
        assert [(kernel, launch.grid, launch.overlap) for kernel, launch, _ in made] == [
            ("first", (4, 1, 1), True), ("second", (4, 1, 1), True),
        ]  # fmt: skip
        assert [data.hex() for data in made[0][2]] == ["00000000000100000400000000000000", "00000040"]
    (measured,) = cache.op("scale").tuning
    assert sorted(measured.times.values()) == [9.0, 10.0]
    told = [(tiling.tile, tiling.at_once) for tiling in measured.tilings.values()]
    assert told == ([({"n": 1024}, 132)] * 2 if old.version >= 3 else [])


def test_what_is_assumed_of_a_gpu_is_read_and_before_version_2_nothing_is(old: Old) -> None:
    assumed = [a.assumes for a in Cache(old.cache).op("scale").artifacts if a.assumes]
    needs = {"multiprocessor_count": 132, "max_active_clusters_2": 66}
    expected = Assumptions(needs=needs, speed={"name": "NVIDIA H200"})
    assert assumed == ([expected] if old.version >= 2 else [])


def test_it_is_explained_for_any_machine(old: Old) -> None:
    code = "from precast import loader; print(loader.explain('scale', {'dtype': 'fp32'}, target='sm_103a'))"
    told = run(code, PRECAST_CACHE_PATH=str(old.cache))
    assert "sm_100f" in told and "built for sm_90a" in told and "built for aarch64" in told


def test_the_measurements_choose(old: Old) -> None:
    if obstacle():
        pytest.skip(obstacle())
    code = (
        "from precast import loader\n"
        "for size in ({}, {'problem': {'n': 4000}}):\n"
        "    chosen = loader.explain('scale', {'dtype': 'fp32'}, target='sm_90a', **size).chosen\n"
        "    print(chosen.artifact.config['threads'])"
    )
    assert run(code, PRECAST_CACHE_PATH=str(old.cache)).split() == ["256", "128"]


def test_its_host_code_is_opened_and_called(old: Old) -> None:
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
    told = run(code, PRECAST_CACHE_PATH=str(old.cache))
    assert told == "43 (x: float32[n], y: float32[n], factor: float32)\n", "twice the argument, and one"


def test_its_wheel_is_found(old: Old, tmp_path: Path) -> None:
    (wheel,) = old.folder.glob("*.whl")
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
        ["fixture.steps", "fixture.tile", "scale"] if old.version >= 4 else ["fixture.tile", "scale"],
    )
