"""A start that makes something for later ones: ``recorded.py TOP NAME PROGRAM...``.

Without the DSL, the program is served: a wheel with the kernels that served it, and with what other compilers left, is
installed in TOP/NAME. With the DSL, its kernels are recorded: TOP/made/NAME.yaml is for ``make.py --recording``.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path


def run(*words: str | Path, **variables: str) -> None:
    """Run a program and show it, with its seconds."""
    began = time.time()
    print("+", *words, flush=True)
    subprocess.run(list(map(str, words)), check=True, env={**os.environ, **variables})
    print(f"took {time.time() - began:.1f} s", flush=True)


def main(top: Path, name: str, program: list[str]) -> None:
    """Record; check, pack and install."""
    precast, started = (sys.executable, "-m", "precast"), (sys.executable, *program)
    made = top / "made" / name
    made.mkdir(parents=True)
    if importlib.util.find_spec("cutlass"):
        recording = made / "run.jsonl"
        run(*started, PRECAST_ATTACH_MODE="record", PRECAST_RECORDING=str(recording))
        run(*precast, "record", "--merge", recording, "-o", made.with_suffix(".yaml"))
        return
    cache = made / "cache"
    (served,) = (top / "kernels").glob("precast_cache_*/index.json")
    shutil.copytree(served.parent, cache)
    run(*precast, "start", "record", "-o", cache, "--", *started)
    run(*precast, "start", "check", cache, "--", *started)
    run(*precast, "wheel", cache, "-o", made / "dist")
    (wheel,) = (made / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(top / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
