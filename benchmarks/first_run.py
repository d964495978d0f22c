"""Run the first minute of README.md in an empty folder with a new home, and keep what it prints and how long it takes.

``python benchmarks/first_run.py`` writes benchmarks/results/first-run.json; ``draw.py`` draws it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
COMMANDS = ("precast new scaled", "precast build scaled.yaml -o cache", "precast wheel cache -o dist")


def typed(line: str, folder: Path, home: Path) -> dict[str, Any]:
    """A command, its lines, in which a checkout is the current folder, and its seconds."""
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONUNBUFFERED": "1"}
    begun = time.perf_counter()
    words = [sys.executable, "-m", *line.split()]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(words, cwd=folder, env=variables, text=True, check=True, **pipes)
    seconds = round(time.perf_counter() - begun, 1)
    return {"typed": line, "seconds": seconds, "lines": done.stdout.replace(str(ROOT), ".").splitlines()}


def main() -> int:
    """Run them, and keep the results."""
    with TemporaryDirectory() as home, TemporaryDirectory() as folder:
        found = [typed(line, Path(folder), Path(home)) for line in COMMANDS]
    (RESULTS / "first-run.json").write_text(json.dumps(found, sort_keys=True, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
