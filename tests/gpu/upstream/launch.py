"""Run every suite on this machine's GPU, in parallel processes, and print the results.

    python3 -m tests.gpu.upstream.launch FOLDER RESULTS [--seconds N]

FOLDER holds the clones' files, RESULTS gets a file of lines and a log for each process. ``run`` does it for a kit.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tests.gpu.upstream.suites import SUITES
from tests.gpu.upstream.table import read, render


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=3600, help="then stop what still runs, and report it")
    options = parser.parse_args()
    folder, results = options.folder.resolve(), options.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + options.seconds
    running: list[tuple[str, Path, subprocess.Popen[bytes]]] = []
    for suite in SUITES:
        for number, part in enumerate(suite.processes()):
            path = results / f"{suite.name.replace(' ', '-')}-{number}.jsonl"
            path.write_text("")
            command = suite.command(sys.executable, folder, "plugin", [f"--results={path}", *part])
            environment = suite.environment(folder, XLA_PYTHON_CLIENT_PREALLOCATE="false")
            with path.with_suffix(".log").open("wb") as log:
                process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
            running.append((suite.name, path, process))
    cut = [path.stem for _, path, process in running if not _ended(process, end)]
    names = dict.fromkeys(name for name, _, _ in running)
    print(render({name: read(path for n, path, _ in running if n == name) for name in names}))
    for stem in cut:
        print(f"\n{stem} was stopped after {options.seconds:.0f} s: what it had not come to is not counted")
    for _, path, process in running:
        log = path.with_suffix(".log").read_text(errors="replace").strip().splitlines()
        print(f"{path.stem}: exit {process.returncode}: {log[-1] if log else ''}")
    sys.exit(1 if cut or any(process.returncode not in (0, 1, 5) for _, _, process in running) else 0)


def _ended(process: subprocess.Popen[bytes], end: float) -> bool:
    try:
        process.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return True


if __name__ == "__main__":
    main()
