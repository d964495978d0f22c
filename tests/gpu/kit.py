"""Collect what a GPU machine without a network needs to run tests/gpu: wheels without the compiler.

    python tests/gpu/kit.py DEST CACHE... [--python 3.12]

CACHE is a cache folder that 'precast build' made. On the GPU machine: bash tests/gpu/run DEST
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("apache-tvm-ffi", "zstandard")
COMMAND = (  # what the command `precast` needs, which torch does not bring
    "typer", "rich", "markdown-it-py", "mdurl", "pygments", "shellingham", "annotated-doc", "pydantic", "pydantic-core",
    "annotated-types", "typing-inspection",
)  # fmt: skip
GLIBCS = (39, 35, 34, 31, 28, 27, 24, 17)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dest", type=Path)
    parser.add_argument("caches", type=Path, nargs="+", metavar="CACHE")
    parser.add_argument("--python", default="3.12")
    options = parser.parse_args()
    dest: Path = options.dest.resolve()
    dest.mkdir(parents=True, exist_ok=True)
    for old in dest.glob("*.whl"):
        old.unlink()
    pip = [sys.executable, "-m", "pip"]
    for source in (ROOT / "loader", ROOT):
        subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", dest, source], check=True)
    for cache in options.caches:
        subprocess.run([sys.executable, "-m", "precast.cli.main", "wheel", cache, "-o", dest], check=True)
    tag = f"cp{options.python.replace('.', '')}"
    command = [*pip, "download", "-q", "--no-deps", "--only-binary=:all:", "--implementation", "cp"]
    command += ["--python-version", options.python, "--abi", tag, "--abi", "abi3", "--abi", "none", "-d", str(dest)]
    for glibc in GLIBCS:
        command += ["--platform", f"manylinux_2_{glibc}_x86_64"]
    command += ["--platform", "manylinux2014_x86_64", *(pinned(name) for name in (*NEEDED, *COMMAND))]
    subprocess.run(command, check=True)
    for wheel in sorted(dest.glob("*.whl")):
        print(f"{wheel.stat().st_size:>9}  {wheel.name}")


def pinned(name: str) -> str:
    """The requirement of a package as constraints.txt has it."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return next(line.partition(";")[0].strip() for line in lines if line.startswith(f"{name}=="))


if __name__ == "__main__":
    main()
