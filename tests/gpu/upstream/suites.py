"""The suites: which test files of which commit, and what is run of them. The files themselves are not here."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PLUGINS = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """Test files in a repository: ``tree`` is the folder of them, ``paths`` what is needed of it.

    They are written to ``folder`` below the clone's own, where ``tree`` alone would not let them be imported.
    """

    repository: str
    commit: str
    tree: str
    paths: Sequence[str]
    folder: str = ""

    def extract(self, clone: Path, folder: Path) -> None:
        """Write the files of the commit to a folder."""
        command = ["git", "-C", str(clone), "archive", f"{self.commit}:{self.tree}", *self.paths]
        archive = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder / self.folder, filter="data")
        (folder / "pytest.ini").write_text("[pytest]\n")  # so that no other configuration is found


CLONES: Mapping[str, Clone] = {
    # One commit before the tag of 0.6.5 would be: its package differs from the wheel's in the version's number alone.
    "quack": Clone(
        repository="https://github.com/Dao-AILab/quack",
        commit="c8ec3170057987da0ec99883736f381ea1937cf3",
        tree="tests",
        paths=(".",),
    ),
    "flash_attention": Clone(
        repository="https://github.com/Dao-AILab/flash-attention",
        commit="0251105a2fb19d2957484b7f023cd8c115286ced",
        tree="tests/cute",
        paths=(".",),
    ),
    "flashinfer": Clone(
        repository="https://github.com/flashinfer-ai/flashinfer",
        commit="fb28d7242b3506a2348265962041acc1fb56cca4",
        tree="tests",
        paths=("__init__.py", "conftest.py", "utils_fp8.py", "norm", "quantization", "test_helpers", "utils"),
        folder="tests",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Some tests of a library, whose name is also its clone's.

    ``shards`` is in how many processes they run beside each other, ``sample`` how many are taken of each test function,
    ``traced`` how many of those that go through torch.compile, which takes seconds each. Both are drawn at random, with
    a fixed seed; 0 takes all.
    """

    library: str
    files: Sequence[str]
    shards: int = 1
    sample: int = 0
    traced: int = 2

    @property
    def name(self) -> str:
        """Its library and its first file.

        >>> Suite(library="quack", files=["test_softmax.py"]).name
        'quack softmax'
        """
        return f"{self.library} {Path(self.files[0]).stem.removeprefix('test_')}"

    def processes(self) -> list[list[str]]:
        """The options of the processes in which its tests run beside each other."""
        sampling = [f"--sample={self.sample}", f"--traced={self.traced}"]
        return [[*sampling, f"--shard={number + 1}/{self.shards}"] for number in range(self.shards)]

    def command(self, python: str, folder: Path, options: Sequence[str] = ()) -> list[str]:
        """Run pytest on it. ``folder`` holds the clones' files."""
        root = folder / self.library
        return [
            *(python, "-m", "pytest", "-q", "--continue-on-collection-errors"),
            *("-p", "no:cacheprovider", "-p", "upstream.plugin"),
            *("--import-mode=importlib", f"--rootdir={root}", "-c", str(root / "pytest.ini"), f"--confcutdir={root}"),
            *(f"--attach={self.library}", *options, *(str(root / name) for name in self.files)),
        ]

    def environment(self, folder: Path, **more: str) -> dict[str, str]:
        """What its tests import of themselves, and the plugin: not out of ``tests``, which a library may have too."""
        places = [str(folder / self.library), str(PLUGINS), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, places))
        return {**os.environ, "PYTHONPATH": path, **more}


def _quack(name: str, shards: int = 1, sample: int = 0, traced: int = 2) -> Suite:
    return Suite(library="quack", files=(f"test_{name}.py",), shards=shards, sample=sample, traced=traced)


def _attention(name: str, shards: int, sample: int) -> Suite:
    return Suite(library="flash_attention", files=(f"test_{name}.py",), shards=shards, sample=sample)


# Every file of quack's that runs on sm_90; the others ask for sm_100 or sm_120, or test parts that launch nothing.
SUITES = (
    _quack("rmsnorm", shards=2, traced=8),
    _quack("layernorm"),
    _quack("softmax"),
    _quack("cross_entropy"),
    _quack("topk"),
    _quack("rotary", sample=48),
    _quack("linear", sample=24),
    _quack("mlp", sample=24),
    _quack("gemm_functional", shards=2, sample=16),
    _quack("gemm_epilogue", shards=2, sample=16),
    _quack("gemm_split_k", sample=16),
    _quack("gemm_symmetric", sample=16),
    _quack("linear_cross_entropy", sample=16),
    _quack("linear_varlen_m", shards=2, sample=16),
    _quack("linear_varlen_k", sample=16),
    _attention("flash_attn", shards=3, sample=16),
    _attention("flash_attn_varlen", shards=2, sample=16),
    _attention("flash_attn_fast", shards=3, sample=16),
    Suite(
        library="flashinfer",
        files=("tests/utils/test_norm.py", "tests/norm/test_fused_rmsnorm_silu.py"),
        shards=2,
        sample=16,
    ),
    Suite(
        library="flashinfer",
        files=(
            "tests/norm/test_rmsnorm_fp4_quant_cute_dsl.py",
            "tests/norm/test_add_rmsnorm_fp4_quant_cute_dsl.py",
            "tests/utils/test_fp8_quantize.py",
            "tests/utils/test_fp4_quantize.py",
        ),
        shards=2,
        sample=16,
    ),
)
