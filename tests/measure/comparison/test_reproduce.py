"""Reproducing and exporting a cache that was really built."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from precast.build.cache.contents import CacheContents
from precast.build.cache.pack import UncompressedOp, pack_ops, uncompressed
from precast.build.errors import Location
from precast.build.link.device_code import cubins_in, read_cubins
from precast.build.link.elf import embedded
from precast.build.link.runtime import RuntimeLibrary
from precast.build.link.toolchain import find_toolchain
from precast.build.plan.variant import Variant
from precast.loader.contract.format.artifact import Artifact
from precast.loader.contract.format.target import Target
from precast.loader.resolve.cache import Cache
from precast.measure.comparison.reproduce import draw
from tests.helpers.builds import write_package as write
from tests.helpers.forks.forked_process import run

pytestmark = pytest.mark.usefixtures("without_torch")


def precast(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    return run(words, {**os.environ, **env})


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a manifest, its kernels, a store and the cache."""
    folder = tmp_path_factory.mktemp("proof")
    done = precast("build", write(folder, "1, 2"), "-o", folder / "cache", "--store", folder / "store", "-j", 1)
    assert done.returncode == 0, done.stderr
    return folder


def forged(cache: Path, path: Path, changes: Mapping[str, bytes]) -> Path:
    """A cache with other bytes in some artifacts, packed as a builder packs it: every digest is right."""
    opened = CacheContents.open(cache)
    contents: dict[str, bytes] = {}
    artifacts: list[Artifact] = []
    for artifact in opened.artifacts.values():
        code = opened.read(artifact.blob)
        code = changes.get(str(artifact.config["value"]), b"") + code
        contents[uncompressed(code).sha256] = code
        artifacts.append(replace(artifact, blob=uncompressed(code)))
    (held,) = opened.index.runtimes
    runtime = RuntimeLibrary(soname=held.soname, code=opened.read(held.blob), host=held.host)
    ops = {op: UncompressedOp(keys=of.keys, doc=of.doc, artifacts=tuple(artifacts)) for op, of in opened.ops.items()}
    files = pack_ops(opened.index.name, opened.index.toolchain, [runtime], ops, contents, threads=1)
    for name, data in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


@pytest.mark.slow
def test_a_cache_is_built_again(built: Path, tmp_path: Path) -> None:
    """What was built comes out again; a byte that was slipped into one variant is found, and that variant named."""
    manifest, cache = built / "home" / "far.yaml", built / "cache"
    assert (
        CacheContents.open(forged(cache, tmp_path / "same", {})).index.encode() == (cache / "index.json").read_bytes()
    )
    good = precast("reproduce", manifest, cache, "-j", 1, PRECAST_STORE=str(tmp_path / "unused"))
    assert good.returncode == 0, good.stdout + good.stderr
    assert "2 artifacts built again, byte for byte; 0 different" in good.stdout
    assert not (tmp_path / "unused").exists()
    bad = precast("reproduce", manifest, forged(cache, tmp_path / "bad", {"2": b"\0"}), "-j", 1, "--json")
    assert bad.returncode == 1
    said = json.loads(bad.stdout)
    ((name, how),) = said["different"].items()
    assert "(value=2)" in name and how.startswith("bytes: ")
    assert [one["config"] for one in said["same"]] == [{"value": 1}]


@pytest.mark.slow
def test_what_no_manifest_asks_for_is_not_proven(built: Path) -> None:
    fewer = built / "home" / "fewer.yaml"
    fewer.write_text((built / "home" / "far.yaml").read_text().replace("[1, 2]", "[1]"))
    said = precast("reproduce", fewer, built / "cache", "-j", 1)
    assert said.returncode == 1
    assert "in no manifest: far.add(value=2)" in said.stdout
    assert "1 artifact built again" in said.stdout


@pytest.mark.slow
def test_other_versions_are_named_before_anything_is_built(built: Path, tmp_path: Path) -> None:
    other = shutil.copytree(built / "cache", tmp_path / "other")
    text = (other / "index.json").read_text()
    (other / "index.json").write_text(text.replace('"nvidia-cutlass-dsl": "4.8.1"', '"nvidia-cutlass-dsl": "4.7.0"'))
    said = precast("reproduce", built / "home" / "far.yaml", other)
    assert said.returncode == 1
    assert "nvidia-cutlass-dsl is 4.8.1 here and 4.7.0 there" in said.stderr


def test_a_sample_is_drawn_by_its_seed() -> None:
    variants = [
        Variant(op="x", source="m:f", config={"n": n}, target=Target.parse("sm_90a"), location=Location("m", 1, 1))
        for n in range(50)
    ]
    one, again, other = (
        draw(order, 5, seed) for order, seed in ((variants, "a"), (variants[::-1], "a"), (variants, "b"))
    )
    assert one == again != other
    assert len({v.identity for v in one}) == 5
    assert len(draw(variants, None, "a")) == len(draw(variants, 99, "a")) == 50


@pytest.mark.slow
def test_an_exported_variant(built: Path, tmp_path: Path) -> None:
    """Every file is there and fits the others; the program in C++ opens the kernel and is told what it takes."""
    key = CacheContents.open(built / "cache").ops["far.add"].artifacts[0].key
    words = ["export", built / "cache", key[:12], "--json"]  # without its manifest it could not be compiled again
    stored = precast(*words, "-o", tmp_path / "one", "--store", built / "store")
    assert stored.returncode == 0, stored.stderr
    files = {Path(name).suffix: name for name in json.loads(stored.stdout)["files"] if "precast-rt" not in name}
    assert set(files) == {".so", ".o", ".cubin", ".ptx", ".sass", ".cpp", ".md"}
    one = {suffix: (tmp_path / "one" / name).read_bytes() for suffix, name in files.items()}
    toolchain = find_toolchain()
    (from_object,) = read_cubins(toolchain, one[".o"])
    (from_library,) = (c for f in embedded(one[".so"]) for c in cubins_in(toolchain, f))
    assert from_object.code == from_library.code == one[".cubin"]
    assert b".target sm_90a" in one[".ptx"] and b"EF_CUDA_SM90" in one[".sass"]

    words += ["--manifest", built / "home" / "far.yaml"]
    rebuilt = precast(*words, "-o", tmp_path / "two", "--store", tmp_path / "empty")
    assert rebuilt.returncode == 0 and all(
        (tmp_path / "two" / files[kind]).read_bytes() == one[kind] for kind in (".o", ".ptx")
    )

    scripts = Path(sysconfig.get_path("scripts"))
    path = f"{scripts}:{os.environ['PATH']}"
    lines = (tmp_path / "one" / "example.cpp").read_text().splitlines()
    commands = [line.removeprefix("//   ") for line in lines if line.startswith("//   ")]
    assert len(commands) == 2
    done = subprocess.run(
        ["sh", "-ec", "\n".join(commands)], cwd=tmp_path / "one", env={**os.environ, "PATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "(x: Tensor([n0], float32), y: Tensor([n0], float32))" in done.stdout, done.stdout


@pytest.mark.slow
def test_what_cannot_be_exported_is_said(built: Path, tmp_path: Path) -> None:
    """Without its manifest the kernel's module is nowhere: what the cache holds is written all the same."""
    key = CacheContents.open(built / "cache").ops["far.add"].artifacts[0].key
    said = precast("export", built / "cache", key, "-o", tmp_path / "out", "--store", tmp_path / "empty")
    assert said.returncode == 1
    assert "lacks it, and compiling it again failed" in said.stderr and "--manifest" in said.stderr
    assert "not written: ptx: the store" in said.stderr and "not written: o: the store" in said.stderr
    written = {p.suffix for p in (tmp_path / "out").iterdir()}
    assert written == {".so", ".cubin", ".sass", ".cpp", ".md"}
    assert "Not here: ptx" in (tmp_path / "out" / "README.md").read_text()
    assert Cache(built / "cache").index.name == "far"
