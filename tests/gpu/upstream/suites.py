"""The suites: which test files of which commit, and what is run of them. The files themselves are not here."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """Test files in a repository: ``tree`` is the folder of them, ``paths`` what is needed of it."""

    repository: str
    commit: str
    tree: str
    paths: Sequence[str]

    def extract(self, clone: Path, folder: Path) -> None:
        """Write the files of the commit to a folder."""
        command = ["git", "-C", str(clone), "archive", f"{self.commit}:{self.tree}", *self.paths]
        archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        (folder / "pytest.ini").write_text("[pytest]\n")  # so that no other configuration is found


CLONES: Mapping[str, Clone] = {
    # One commit before the tag of 0.6.5 would be: its package differs from the wheel's in the version's number alone.
    "quack": Clone(
        repository="https://github.com/Dao-AILab/quack",
        commit="c8ec3170057987da0ec99883736f381ea1937cf3",
        tree="tests",
        paths=("conftest.py", "test_rmsnorm.py", "test_softmax.py"),
    ),
    # v4.7.0, whose operators are 0.2.0: the last commit that holds their tests. What is tested is 0.3.0.
    "operators": Clone(
        repository="https://github.com/NVIDIA/cutlass",
        commit="418ba45013423731194f8c487348a5da2511298a",
        tree="operators/test",
        paths=("__init__.py", "conftest.py", "integration", "test_utils"),
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Some tests of a clone. Of those that go through torch.compile, ``traced`` are taken at random, seconds each."""

    name: str
    clone: str
    files: Sequence[str]
    traced: int = 0
    shards: int = 1

    def processes(self) -> list[list[str]]:
        """The options of the processes in which its tests run beside each other."""
        shards = [
            ["--part=traced", f"--traced={self.traced}", f"--shard={i + 1}/{self.shards}"] for i in range(self.shards)
        ]
        return [["--part=plain"], *(shards if self.traced else [])]

    def command(self, python: str, folder: Path, plugin: str, options: Sequence[str] = ()) -> list[str]:
        """Run pytest on it. ``folder`` holds the clones' files."""
        root = folder / self.clone
        return [
            *(python, "-m", "pytest", "-q", "--continue-on-collection-errors"),
            *("-p", "no:cacheprovider", "-p", f"tests.gpu.upstream.{plugin}"),
            *("--import-mode=importlib", f"--rootdir={root}", "-c", str(root / "pytest.ini"), f"--confcutdir={root}"),
            *(f"--library=tests.gpu.upstream.{self.clone}", *options, *(str(root / name) for name in self.files)),
        ]

    def environment(self, folder: Path, **more: str) -> dict[str, str]:
        """No cache of the library's own, and what its tests import of themselves."""
        path = os.pathsep.join(filter(None, [str(folder / self.clone), os.environ.get("PYTHONPATH", "")]))
        return {**os.environ, "PYTHONPATH": path, "QUACK_CACHE_ENABLED": "0", **more}


# Those of the integration tests that reach a dense GEMM; the rest say themselves that they are for sm_100 and later.
GEMM = tuple(
    f"integration/test_{name}.py"
    for name in (
        "gemm", "gemm_dynamic", "gemm_epilogue_fusion", "gemm_jax", "tvm_ffi", "overhead", "cuda_graph",
        "cutlass_tensor", "preferred_cluster_gemm", "tgv_gemm", "mixed_input_gemm", "contiguous_offset_dense_gemm",
    )
)  # fmt: skip
SUITES = (
    Suite(name="quack softmax", clone="quack", files=["test_softmax.py"], traced=20),
    Suite(name="quack rmsnorm", clone="quack", files=["test_rmsnorm.py"], traced=80, shards=4),
    Suite(name="operators gemm", clone="operators", files=GEMM),
)
