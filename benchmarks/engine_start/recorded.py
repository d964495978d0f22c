"""A start that makes a wheel for later ones: ``recorded.py TOP NAME PROGRAM...``, installed in the folder TOP/NAME.

Without the DSL, the program is served: the wheel has the kernels that served it, and what other compilers left. With
the DSL, its kernels are recorded and built.
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
    """Record, check, pack and install."""
    precast = (sys.executable, "-m", "precast")
    made = top / "made" / name
    made.mkdir(parents=True)
    cache, started = made / "cache", (sys.executable, *program)
    if importlib.util.find_spec("cutlass") is None:
        (served,) = (top / "kernels").glob("precast_cache_*/index.json")
        shutil.copytree(served.parent, cache)
        run(*precast, "start", "record", "-o", cache, "--", *started)
        run(*precast, "start", "check", cache, "--", *started)
    else:
        recording, manifest = made / "run.jsonl", made / "recorded.yaml"
        run(*started, PRECAST_ATTACH_MODE="record", PRECAST_RECORDING=str(recording))
        for variable in ("PRECAST_ATTACH", "PRECAST_ATTACH_MODE"):
            del os.environ[variable]
        run(*precast, "record", "--merge", recording, "-o", manifest)
        run(*precast, "build", manifest, "-o", cache)
        run(*precast, "check", manifest, cache)
    run(*precast, "wheel", cache, "-o", made / "dist")
    (wheel,) = (made / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(top / name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
