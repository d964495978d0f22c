"""Collect what a GPU machine without a network needs to run the suites.

    python -m tests.gpu.upstream.kit DEST FOLDER

FOLDER is what ``collect`` wrote, with the cache in FOLDER/cache. The compiler is not in it: these libraries import it,
so the GPU machine has it already, unpacked in a folder. There: bash tests/gpu/upstream/run DEST COMPILER
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from precast.kernels.adapters.operators.catalogue import OPERATORS
from precast.kernels.adapters.quack.library import QUACK
from tests.gpu import kit
from tests.gpu.upstream.suites import CLONES


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("dest", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    dest, folder = options.dest.resolve(), options.folder.resolve()
    subprocess.run([sys.executable, kit.__file__, dest, folder / "cache"], check=True)
    wheels = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", dest]
    subprocess.run([*wheels, str(QUACK), str(OPERATORS)], check=True)
    for name in CLONES:
        shutil.rmtree(dest / "suites" / name, ignore_errors=True)
        shutil.copytree(folder / name, dest / "suites" / name, ignore=shutil.ignore_patterns("__pycache__"))


if __name__ == "__main__":
    main()
