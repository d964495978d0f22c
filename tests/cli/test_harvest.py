"""``precast harvest`` on the cache of a small engine, which keeps its kernels as SGLang and FlashAttention-4 do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.attached import write_library
from tests.helpers.builds import environment, precast

KERNELS = """
import hashlib, os, pickle
from pathlib import Path


class DiskCache(dict):
    cache_path = Path(os.environ.get("SGLANG_CUTE_AOT_CACHE_DIR", "unset"), "5" * 64, "run")

    def _key_to_hash(self, key):
        return hashlib.sha256(pickle.dumps(key)).hexdigest()


def run(n, name="same"):
    key = (n, name, name, None)
    if key not in run.compile_cache:
        run.compile_cache[key] = keep(key)


def keep(key):
    path = DiskCache.cache_path / f"{DiskCache()._key_to_hash(key)}.o"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"an object")


run.compile_cache = DiskCache()
"""
SEAMS = """
from precast.loader.attach import CacheAttribute, Library
SEAM = CacheAttribute("my_engine.kernels", "compile_cache")
LIBRARY = Library(name="engine", distribution="my-engine", package="my_engine", seams=(SEAM,))
"""
Precast = Callable[..., "subprocess.CompletedProcess[str]"]
pytest.importorskip("torch")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Precast:
    """Runs ``precast`` in ``tmp_path``, where ``warm`` is the engine's cache of two keys, and ``all.yaml`` a recording
    of two, one of which is in the cache."""
    site = write_library(
        tmp_path / "site", {"my_engine/kernels.py": KERNELS}, package="my_engine", distribution="my-engine"
    )
    (site / "engine_seams.py").write_text(SEAMS)
    (site / "my_engine-1.0.dist-info" / "entry_points.txt").write_text("[precast.libraries]\nengine = engine_seams\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.chdir(tmp_path)
    program = "from my_engine.kernels import run; run({}); run({})"
    subprocess.run(
        [sys.executable, "-c", program.format(8, 16)], check=True,
        env=environment(tmp_path / "store") | {"SGLANG_CUTE_AOT_CACHE_DIR": "warm"},
    )  # fmt: skip
    (tmp_path / "all.py").write_text(program.format(8, 32))

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        return precast(tmp_path / "store", *words)

    recorded = run("record", "-t", "sm_90a", "--library", "engine", "-o", "all.yaml", "--", "all.py")
    assert recorded.returncode == 0, recorded.stderr
    return run


def test_candidates_whose_files_are_there_are_kept(engine: Precast, tmp_path: Path) -> None:
    harvested = engine(
        "harvest", "warm", "-o", "out.yaml", "-t", "sm_90a", "--candidates", "all.yaml", "-v", "--name", "recorded"
    )
    assert harvested.returncode == 0, harvested.stderr
    assert "2 files named by a digest (quack, FlashAttention-4, SGLang): 1 recovered\n" in harvested.stdout
    assert "  1 file not recovered: its name is a digest of its key" in harvested.stdout
    assert f"    '{tmp_path}/warm/{'5' * 64}/run/" in harvested.stdout
    assert "out.yaml: 1 kernel (engine 1)\nbuild it: precast build out.yaml -o cache\n" in harvested.stdout
    lines = (tmp_path / "all.yaml").read_text().splitlines()
    kept = (tmp_path / "out.yaml").read_text().splitlines()
    assert [line for line in lines if line not in kept] == [
        line for line in lines if "[[32, " in line or '["n", 32]' in line or "[n, 32]" in line
    ]
    assert any("[[8, same, same, null]]" in line for line in kept)


def test_without_candidates_no_digest_is_recovered(engine: Precast, tmp_path: Path) -> None:
    harvested = engine("harvest", "warm", "-o", "out.yaml", "-t", "sm_90a")
    assert harvested.returncode == 1
    assert "  2 files not recovered: its name is a digest of its key, and no candidate has that key" in harvested.stdout
    assert "no key was recovered: record the program with 'precast record' instead" in harvested.stderr
    assert not (tmp_path / "out.yaml").exists()


def test_a_library_can_be_left_out(engine: Precast) -> None:
    harvested = engine(
        "harvest", "warm", "-o", "out.yaml", "-t", "sm_90a", "--candidates", "all.yaml", "--library", "quack"
    )
    assert harvested.returncode == 1
    assert "0 recovered" in harvested.stdout


def test_candidates_of_another_version_are_refused(engine: Precast, tmp_path: Path) -> None:
    text = (tmp_path / "all.yaml").read_text()
    (tmp_path / "all.yaml").write_text(text.replace('library_version: "1.0"', 'library_version: "0.9"'))
    harvested = engine("harvest", "warm", "-o", "out.yaml", "-t", "sm_90a", "--candidates", "all.yaml")
    assert harvested.returncode == 2
    assert "all.yaml was recorded with engine 0.9, and other files or another version are installed" in harvested.stderr


def test_candidates_for_another_target_are_refused(engine: Precast) -> None:
    harvested = engine("harvest", "warm", "-o", "out.yaml", "-t", "sm_100a", "--candidates", "all.yaml")
    assert harvested.returncode == 2
    assert "all.yaml is for sm_90a: give one of them as --target, or name a manifest for sm_100a" in harvested.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("gone", "-o", "out.yaml"), "gone is not a folder: name the folder of a cache"),
        (("warm", "-o", "no/out.yaml"), "name a file in a folder that exists"),
        (("warm", "-o", "out.yaml", "--name", "No"), "'No' is not a name of a manifest"),
        (("warm", "-o", "out.yaml", "--library", "none"), "no library 'none' is declared"),
        (("warm", "-o", "out.yaml", "--candidates", "none.yaml"), "none.yaml"),
    ],
)
def test_wrong_requests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "warm").mkdir()
    harvested = precast(tmp_path / "store", "harvest", *words, "-t", "sm_90a")
    assert harvested.returncode == 2
    assert message in " ".join(harvested.stderr.replace("│", " ").split())
