"""Collect what a GPU machine without a network needs to run the suites.

    python -m tests.gpu.upstream.kit DEST --quack CLONE --flash_attention CLONE --flashinfer CLONE

CLONE is a clone of the library's repository. DEST gets the test files, and wheels of precast, of the libraries and of
what both need beside torch. The DSL is not among them: have it unpacked in a folder of the GPU machine, and run there:

    bash tests/gpu/upstream/run DEST DSL
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from tests.gpu.kit import GLIBCS, ROOT, pinned
from tests.gpu.upstream.suites import CLONES

LIBRARIES = ("quack-kernels", "flash-attn-4", "flashinfer-python")
NEEDED = (
    "apache-tvm-ffi", "einops", "nvidia-cuda-cuobjdump", "packaging", "pyelftools",
    "requests", "tabulate", "tqdm", "typing-extensions", "zstandard",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dest", type=Path)
    parser.add_argument("--python", default="3.12")
    for name, clone in CLONES.items():
        parser.add_argument(f"--{name}", type=Path, metavar="CLONE", required=True, help=f"of {clone.repository}")
    options = parser.parse_args()
    dest: Path = options.dest.resolve()
    dest.mkdir(parents=True, exist_ok=True)
    for name, clone in CLONES.items():
        shutil.rmtree(dest / "suites" / name, ignore_errors=True)
        clone.extract(getattr(options, name), dest / "suites" / name)
    pip = [sys.executable, "-m", "pip"]
    for source in (ROOT / "loader", ROOT):
        subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", dest, source], check=True)
    platforms = [f"--platform=manylinux_2_{glibc}_x86_64" for glibc in GLIBCS]
    tag = f"cp{options.python.replace('.', '')}"
    command = [*pip, "download", "-q", "--no-deps", "--only-binary=:all:", "--implementation", "cp", "-d", str(dest)]
    command += ["--python-version", options.python, "--abi", tag, "--abi", "abi3", "--abi", "none", *platforms]
    subprocess.run([*command, "--platform=manylinux2014_x86_64", *map(pinned, (*LIBRARIES, *NEEDED))], check=True)


if __name__ == "__main__":
    main()
