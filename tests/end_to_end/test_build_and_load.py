"""From a manifest to an opened kernel, with the real compiler, the real linker and real processes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from precast.build.link.toolchain import find_toolchain
from precast.loader.resolve.cache import Cache
from tests.end_to_end.conftest import Run, manifest
from tests.helpers.builds import tree

pytestmark = pytest.mark.usefixtures("without_torch")

USE = """
import sys
from precast import loader
for name in ("torch", "tvm_ffi", "cutlass", "yaml", "zstandard"):
    assert name not in sys.modules, name
for op in loader.ops():
    kernel = loader.get(op, {"dtype": "bfloat16"}, target="sm_90a")
    print(op, kernel.signature)
    try:
        kernel(None, None, 1.0)
    except loader.NoCudaDevice as error:
        print("typed:", type(error).__name__)
assert "cutlass" not in sys.modules
"""


@pytest.mark.slow
def test_a_cache_names_no_folder_and_gives_the_same_wheel_from_anywhere(
    user: Path, tmp_path: Path, precast: Run
) -> None:
    """That a cache has the same bytes in any surroundings is tested in ``builds/test_surroundings.py``."""
    caches = [tmp_path / "one", tmp_path / "there" / "two"]
    words = ("build", manifest(user, "plain"), "-o", caches[0], "-j", 1, "--store", tmp_path / "store")
    built = precast(*words)
    assert "2 variants built, 0 reused" in built.stdout, built.stderr
    shutil.copytree(caches[0], caches[1])
    wheels = [tmp_path / "w1", tmp_path / "w2"]
    for cache, wheel in zip(caches, wheels, strict=True):
        # A wheel's version is the time of its cache, unless the environment states one.
        assert precast("wheel", cache, "-o", wheel, SOURCE_DATE_EPOCH="1700000000").returncode == 0
    assert tree(wheels[0]) == tree(wheels[1])
    (wheel,) = wheels[0].glob("*.whl")
    runtime = Cache(caches[0]).index.runtimes[0].blob
    with zipfile.ZipFile(wheel) as archive:
        blobs = {Path(entry.filename).name: entry for entry in archive.infolist() if "/blobs/" in entry.filename}
    assert runtime.stored == runtime.size, "what every process opens needs no decompressing"
    assert blobs[runtime.sha256].compress_size < runtime.size / 3, "but travels small"
    stored = [entry.compress_type == zipfile.ZIP_STORED for entry in blobs.values()]
    assert stored.count(False) == 1, "what is compressed already travels as it is"
    everything = b"".join(tree(caches[0]).values())
    for word in (str(tmp_path), str(Path.home()), "/user/mykernels.py"):
        assert word.encode() not in everything, f"the cache says {word}"


def test_functions_that_know_nothing_of_precast(user: Path, tmp_path: Path, precast: Run) -> None:
    """A plain function, one that returns a closure, and one under a cache: built, and found by the loader."""
    cache = tmp_path / "cache"
    built = precast("build", manifest(user, "plain", "closure", "cached"), "-o", cache)
    assert built.returncode == 0, built.stderr
    done = subprocess.run(
        [sys.executable, "-c", USE], env={"PRECAST_CACHE_PATH": str(cache)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for function in ("plain", "closure", "cached"):
        assert f"user.{function} (x: bfloat16[n0], y: bfloat16[n0], value: float32)" in done.stdout
    assert done.stdout.count("typed: NoCudaDevice") == 3 or "typed" not in done.stdout


@pytest.mark.slow
def test_every_cubin_is_for_the_target_its_index_says(user: Path, tmp_path: Path, precast: Run) -> None:
    """What was built is taken out of the cache again and asked with a tool that knows nothing of the index."""
    cache = tmp_path / "cache"
    targets = "[sm_80, sm_90a, sm_100a, sm_120a]"
    built = precast("build", manifest(user, "plain", dtypes="[float32]", targets=targets), "-o", cache)
    assert built.returncode == 0, built.stderr
    opened = Cache(cache)
    artifacts = opened.op("user.plain").artifacts
    assert len(artifacts) == 4
    for artifact in artifacts:
        library = opened.read(artifact.blob)
        start = library.index(b"\x7fELF", 64)  # the first ELF file inside this one
        path = tmp_path / "inside.bin"
        path.write_bytes(library[start:])
        said = subprocess.run(
            [find_toolchain().cuobjdump, "-lelf", path], capture_output=True, text=True, check=True
        ).stdout
        assert f"inside.{artifact.target}.cubin" in said
        assert artifact.resources[0].registers > 0


@pytest.mark.slow
def test_an_error_in_one_variant_costs_that_variant(user: Path, tmp_path: Path, precast: Run) -> None:
    cache = tmp_path / "cache"
    mine = manifest(user, "failing", "plain")
    built = precast("build", mine, "-o", cache)
    assert built.returncode == 1
    assert f"error: {mine}:" in built.stderr
    assert "user.failing(dtype=bfloat16) for sm_90a: ValueError: this tile does not fit" in built.stderr
    assert "raise ValueError" in built.stderr
    assert "(PC" not in built.stderr, "it is the author's error"
    assert "failed" in built.stdout
    checked = precast("check", mine, cache)
    assert checked.returncode == 1
    [missing] = [line for line in checked.stdout.splitlines() if line.startswith("missing:")]
    assert missing.startswith("missing: user.failing(dtype=bfloat16) for sm_90a")
    assert "3 of 4 artifacts present" in checked.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "said"),
    [("silent", "compiled nothing: it must call cute.compile"), ("twice", "compiled 2 objects where 1 is expected")],
)
def test_exactly_one_object(user: Path, tmp_path: Path, precast: Run, function: str, said: str) -> None:
    built = precast("build", manifest(user, function, dtypes="[float32]"), "-o", tmp_path / "cache")
    assert built.returncode == 1
    assert said in built.stderr
    assert built.stderr.count("(PCB19)") == 1, "the code of this kind of refusal"
    assert not (tmp_path / "cache").exists()


def test_a_bad_manifest_writes_nothing(user: Path, tmp_path: Path, precast: Run) -> None:
    bad = user / "bad.yaml"
    bad.write_text("version: 1\nname: bad\ntargets: [sm_90a]\npath: .\nkernels:\n  - compil: mykernels:plain\n")
    built = precast("build", bad, "-o", tmp_path / "cache")
    assert built.returncode == 2
    assert f"{bad}:6:5: " in built.stderr
    assert "did you mean 'compile'?" in built.stderr
    assert not (tmp_path / "cache").exists()


def test_a_missing_variant_says_what_would_build_it(user: Path, tmp_path: Path, precast: Run) -> None:
    cache = tmp_path / "cache"
    assert precast("build", manifest(user, "plain"), "-o", cache).returncode == 0
    code = "from precast import loader; loader.get('user.plain', {'dtype': 'float16'}, target='sm_90a')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PRECAST_CACHE_PATH": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "VariantNotFound" in done.stderr
    for text in (
        "'bfloat16', not 'float16'",
        "'float32', not 'float16'",
        "nearest:",
        "dtype: float16",
        "targets: [sm_90a]",
    ):
        assert text in done.stderr, done.stderr


def test_a_build_does_not_replace_what_is_no_cache(user: Path, tmp_path: Path, precast: Run) -> None:
    precious = tmp_path / "sources"
    precious.mkdir()
    (precious / "thesis.tex").write_text("years of work")
    built = precast("build", manifest(user, "plain", dtypes="[float32]"), "-o", precious)
    assert built.returncode == 2
    assert "choose an empty or a new folder" in built.stderr
    assert (precious / "thesis.tex").read_text() == "years of work"
