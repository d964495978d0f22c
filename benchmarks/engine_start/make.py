"""What a GPU machine without a network needs for the starts: ``python benchmarks/engine_start/make.py WORK``.

No GPU is needed here, but uv, gcc, strip, zstandard and some 20 GB. WORK/pieces gets ``00`` with the programs, and
archives of at most ``--piece`` MiB. What a step has made stays: delete its folder to have it made again. On the GPU
machine, with a Python 3.12 that has torch 2.11 for CUDA 13:

    PYTHONPATH=00 python3 00/pieces.py TOP 01.tar.zst 02.tar.zst ...      # each as it comes
    python3 00/run.py TOP --out FOLDER                                    # set up, and all starts: some 20 minutes
    python benchmarks/engine_start/page.py FOLDER/results.tgz             # here: the stored results and the table
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pieces import pack
from selection import content, files

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENGINES = {
    "vllm": ("vllm==0.33.0", "cuda-python>=13"),
    "sglang": ("sglang==0.5.23", "cuda-python>=13"),
}
"""Without the second, uv pairs cuda-python 12.6.2.post1 with cuda-bindings 13.5, and ``import cutlass`` fails."""
OPTIONS = ("max_model_len=4096", "max_num_seqs=64", "max_num_batched_tokens=4096")
MODELS: dict[str, tuple[str, ...]] = {
    "gemma4moe": (),
    "llama": ('attention_config={"flash_attn_version":4}',),
    "qwen3moe": (),
    "gptoss": (),
    "qwen3next": (),
    "deepseekv3": (),
}
"""The models that are recorded for vLLM, with further options. SGLang is recorded there, first: ``--recording``."""
PROGRAMS = ("cells.py", "engine.py", "engine_sglang.py", "pieces.py", "recorded.py", "run.py")
OURS = ("precast", "zstandard")


class Work:
    """The folders below WORK."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder.resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.python = python
        self.engine, self.builder = self.folder / "engine", self.folder / "builder"
        self.recording, self.cache = self.folder / "recorded.yaml", self.folder / "cache"
        self.pieces = self.folder / "pieces"

    def site(self, environment: Path) -> Path:
        """The site-packages of an environment."""
        return next(environment.glob("lib/python3.*/site-packages"))

    def copy_of(self, source: Path, environment: Path) -> None:
        """An environment with hard links to the files of another."""
        run("uv", "venv", "-q", "--python", self.python, environment)
        run("cp", "-alf", f"{self.site(source)}/.", self.site(environment))

    def install(self, environment: Path, *requirements: object) -> None:
        """By the resolver's rules."""
        run("uv", "pip", "install", "--python", environment / "bin" / "python", *requirements)

    def wheel_of(self, folder: Path) -> Path:
        """Build a wheel of sources."""
        dest = self.folder / "wheels"
        run("uv", "build", "-q", "--wheel", "--python", self.python, "-o", dest, folder)
        return max(dest.glob("*.whl"), key=lambda path: path.stat().st_mtime)


def run(*words: object, **more: str) -> None:
    """Run a program, and show it."""
    print("+", *words, flush=True)
    subprocess.run(list(map(str, words)), check=True, env={**os.environ, **more})


def make_environments(work: Work, engine: str, ready: Path | None) -> None:
    """The engine's environment with the loader and attach, and a copy of it that records and builds."""
    if not work.engine.exists():
        wheels = [work.wheel_of(ROOT / folder) for folder in ("loader", "attach")]
        if ready:
            work.copy_of(ready, work.engine)
        else:
            run("uv", "venv", "-q", "--python", work.python, work.engine)
        work.install(work.engine, *ENGINES[engine], *wheels)
    if not work.builder.exists():
        work.copy_of(work.engine, work.builder)
        work.install(work.builder, work.wheel_of(ROOT), *(work.folder / "wheels").glob("precast_*-*.whl"))


def make_cache(work: Work, recording: Path | None) -> None:
    """Record what the engine will ask for, build it, and install its wheel in the engine's environment."""
    precast, cuda = work.builder / "bin" / "precast", {"PRECAST_CUDA": "13"}
    if not work.recording.exists() and recording:
        shutil.copy(recording, work.recording)
    if not work.recording.exists():
        for model, more in MODELS.items():
            options = [word for option in (*OPTIONS, *more) for word in ("--engine-option", option)]
            config = HERE / "models" / model / "config.json"
            add = ["--append"] * work.recording.exists()
            words = ("-t", "sm_90a", "--engine", "vllm", "--model", config, *options, *add, "-o", work.recording)
            run(precast, "record", *words, **cuda)
    if not work.cache.exists():
        run(precast, "build", work.recording, "-o", work.cache, **cuda)
        run(precast, "check", work.recording, work.cache, **cuda)
        run(precast, "wheel", work.cache, "-o", work.folder / "dist")


Content = tuple[str, int, bytes | bytearray]


def contents(site: Path, ours: bool) -> Iterator[Content]:
    """Of an environment, what changes with each build of this project, or all else."""
    for name, path in files(site):
        if name.partition("/")[2].startswith(OURS) == ours:
            yield name, path.stat().st_mode & 0o777, content(path)


def ours(work: Work) -> Iterator[Content]:
    """The loader and attach, what the builder's environment has besides, and the cache's wheel, each in its folder."""
    yield from contents(work.site(work.engine), ours=True)
    site = work.site(work.builder)
    for path in sorted(site.rglob("*")):
        inside = path.relative_to(site)
        if path.is_file() and "__pycache__" not in inside.parts and not (work.site(work.engine) / inside).exists():
            yield f"tools/{inside.as_posix()}", path.stat().st_mode & 0o777, path.read_bytes()
    for wheel in (work.folder / "dist").glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                yield f"kernels/{name}", 0o644, archive.read(name)


def make_pieces(work: Work, limit: int) -> None:
    """The programs, the engine and its dependencies (minutes), and what this project installs."""
    site, first, last = work.site(work.engine), work.pieces / "00", work.pieces / "ours"
    shutil.rmtree(first, ignore_errors=True)
    shutil.rmtree(last, ignore_errors=True)
    last.mkdir(parents=True)
    shutil.copytree(HERE / "models", first / "models")
    shutil.copytree(site / "zstandard", first / "zstandard", ignore=shutil.ignore_patterns("__pycache__", "*cffi*"))
    for name in PROGRAMS:
        shutil.copy(HERE / name, first)
    if not (work.pieces / "engine").exists():
        (work.pieces / "engine").mkdir()
        pack(contents(site, ours=False), work.pieces / "engine", limit)
    pack(ours(work), last, limit)
    for path in sorted(work.pieces.rglob("*.zst")):
        print(f"{path.stat().st_size / 2**20:6.1f} MiB  {path}")


def main() -> int:
    """Make what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--engine", choices=sorted(ENGINES), default="vllm")
    parser.add_argument("--piece", type=int, default=60, help="MiB that travel at a time")
    parser.add_argument("--python", default="3.12", help="what uv makes environments of; the GPU machine's version")
    parser.add_argument("--environment", type=Path, help="one with the engine, which is copied by hard links")
    parser.add_argument("--recording", type=Path, help="a recording in place of a new one; of SGLang, made there")
    given = parser.parse_args()
    work = Work(given.work, given.python)
    make_environments(work, given.engine, given.environment)
    if given.engine == "vllm" or given.recording:
        make_cache(work, given.recording)
    make_pieces(work, given.piece << 20)
    return 0


if __name__ == "__main__":
    sys.exit(main())
