"""Run clang-tidy over the C files: ``tidy.py CLANG_TIDY``, with the Python of an environment.

Where Python.h is missing, the call path is left out, as it is in a build.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

from precast.native.tables import tables

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "loader" / "native", ROOT / "native")


def main(tidy: str) -> int:
    """Check every file; 1 where there is a finding."""
    python = Path(sysconfig.get_paths()["include"])
    spec = find_spec("tvm_ffi")
    if spec is None or not spec.submodule_search_locations:
        print("apache-tvm-ffi is not installed: pip install apache-tvm-ffi", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as generated:
        for name, text in tables().items():
            Path(generated, name).write_text(text)
        folders = sorted({path.parent for folder in FOLDERS for path in folder.rglob("*.h")})
        ffi = Path(spec.submodule_search_locations[0], "include")
        includes = [f"-I{folder}" for folder in (*folders, generated, ffi)]
        sources = sorted(path for folder in FOLDERS for path in folder.rglob("*.c"))
        files = [path for path in sources if path.parent.name != "callpath" or python.is_dir()]
        head, tail = [tidy, "--quiet"], ["--", "-std=c11", "-D_GNU_SOURCE", "-isystem", str(python), *includes]

        def check(path: Path) -> subprocess.CompletedProcess[str]:
            return subprocess.run([*head, str(path), *tail], capture_output=True, text=True, check=False)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            wrong = [done.stdout for done in pool.map(check, files) if done.returncode]
    print("".join(wrong), end="")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
