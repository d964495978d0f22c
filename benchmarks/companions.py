"""Seconds to verify and place companions: ``python benchmarks/companions.py [--megabytes 10 100 500] [--folder DIR]``.

Files are half noise and half text. ``small`` has them as Triton leaves them, 40 kB each, ``large`` as graphs of vLLM,
8 MB each. ``first`` begins with an empty folder; ``second`` finds all of it there, ``busy`` counts seconds of
processors. Each is the least of three, in this process, with the cache's files in memory, and includes the opening of
the cache.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from precast.attach.builder.added_companions import add_companions
from precast.attach.companions.placement import place_files
from precast.build.cache.pack import uncompressed
from precast.loader.contract.format.companion_index import CompanionFile, CompanionIndex, CompanionState
from precast.loader.resolve.cache import Cache

SIZES = {"small": 40_000, "large": 8_000_000}
TEXT = b"%12 = tt.load %11, %7 : tensor<1024x!tt.ptr<bf16>>\n"
FACTS = {"triton": "3.8.0"}


def contents(total: int, size: int) -> Iterator[bytes]:
    """Files of a size, ``total`` bytes in all, always the same."""
    noise = random.Random(0)
    for _ in range(total // size):
        yield noise.randbytes(size // 2) + (TEXT * (size // 2 // len(TEXT) + 1))[: size - size // 2]


def written(path: Path, total: int, size: int) -> int:
    """Write a cache with such files, and return the bytes that it takes."""
    data = [*contents(total, size)]
    files = [CompanionFile(path=f"{n:06}/kernel", blobs=(uncompressed(each),)) for n, each in enumerate(data)]
    state = CompanionState(name="triton", facts=FACTS, files=tuple(files))
    blobs = {file.blobs[0].sha256: each for file, each in zip(files, data, strict=True)}
    add_companions(path, "measured", CompanionIndex(command=(), companions=(state,)), blobs)
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def place_once(path: Path, root: Path) -> None:
    """Open a cache and place its files."""
    placement = place_files(Cache(path), root, lambda _: FACTS, {})
    assert placement.placed and not placement.left_out


def least(action: Callable[[], object], before: Callable[[], object] = lambda: None) -> tuple[float, float]:
    """The least seconds of three runs, and the least seconds of processors."""
    seconds, busy = [], []
    for _ in range(3):
        before()
        begun, begun_busy = time.perf_counter(), time.process_time()
        action()
        seconds.append(time.perf_counter() - begun)
        busy.append(time.process_time() - begun_busy)
    return min(seconds), min(busy)


def main() -> None:
    """Print a line for each size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="*", default=[10, 100, 500])
    parser.add_argument("--folder", type=Path, help="where caches and placed files are written; by default, in TMPDIR")
    given = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} processors, Python {sys.version.split()[0]}")
    print("  MB  files  each   stored MB  first s    busy s  second s    busy s")
    for megabytes in given.megabytes:
        for name, size in SIZES.items():
            with tempfile.TemporaryDirectory(dir=given.folder) as folder:
                path, root = Path(folder, "cache"), Path(folder, "root")
                stored = written(path, megabytes * 1_000_000, size)

                run = partial(place_once, path, root)
                first = least(run, partial(shutil.rmtree, root, ignore_errors=True))
                second, files = least(run), megabytes * 1_000_000 // size
                times = "  ".join(f"{seconds:8.4f}" for seconds in (*first, *second))
                print(f"{megabytes:4}  {files:5}  {name}  {stored / 1e6:9.1f}  {times}", flush=True)


if __name__ == "__main__":
    main()
