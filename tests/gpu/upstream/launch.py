"""Run every suite on this machine's GPU, in parallel processes, and print the results.

    python3 -m tests.gpu.upstream.launch FOLDER RESULTS [--mode record] [--without-compiler] [--seconds N] [NAME...]

FOLDER holds the clones' files, RESULTS gets a file of lines and a log for each process; in mode record also
``recorded.yaml``, the manifest of all that the tests asked for. NAME selects suites that begin with it. ``run`` does
all of it for a kit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from precast.attach.builder.recorded_manifest import manifest_of
from precast.attach.recordings.recording import merged, read_recording
from tests.gpu.upstream.suites import SUITES, Suite
from tests.gpu.upstream.table import read, render

TARGET = "sm_90a"


@dataclass(frozen=True, slots=True)
class Process:
    """One process: the part of a suite that it runs, and the file that gets a line for each test."""

    suite: Suite
    options: tuple[str, ...]
    path: Path

    def run(self, folder: Path, end: float) -> int | None:
        """Run it; the exit status, or None where the time was over first."""
        command = self.suite.command(sys.executable, folder, [f"--results={self.path}", *self.options])
        environment = self.suite.environment(folder)
        with self.path.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, cwd=folder / self.suite.library, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            return process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--mode", choices=["record", "frozen"], default="frozen")
    parser.add_argument("--without-compiler", action="store_true")
    parser.add_argument("--seconds", type=float, default=3600, help="then stop what still runs, and report it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes beside each other")
    options = parser.parse_intermixed_args()
    folder, results = options.folder.resolve(), options.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    shared = [f"--mode={options.mode}", *(["--without-compiler"] if options.without_compiler else [])]
    processes = []
    for suite in SUITES:
        if options.names and not suite.name.startswith(tuple(options.names)):
            continue
        for number, part in enumerate(suite.processes()):
            path = results / f"{suite.name.replace(' ', '-')}-{number}.jsonl"
            path.write_text("")
            recording = [f"--recording={path.with_suffix('.recording')}"] if options.mode == "record" else []
            processes.append(Process(suite, (*shared, *part, *recording), path))
    end = time.monotonic() + options.seconds
    statuses = _run_all(processes, folder, end, options.jobs)
    names = dict.fromkeys(process.suite.name for process in processes)
    print(render({name: read(p.path for p in processes if p.suite.name == name) for name in names}))
    if options.mode == "record":
        lines = b"".join(path.read_bytes() for path in sorted(results.glob("*.recording")))
        text = manifest_of(merged(read_recording(lines)), name="suites", targets=[TARGET])
        (results / "recorded.yaml").write_text(text)
    for process, status in zip(processes, statuses, strict=True):
        log = process.path.with_suffix(".log").read_text(errors="replace").strip().splitlines()
        what = "stopped: what it had not come to is not counted" if status is None else f"exit {status}"
        print(f"{process.path.stem}: {what}: {log[-1] if log else ''}")
    sys.exit(1 if any(status not in (0, 1, 5) for status in statuses) else 0)


def _run_all(processes: list[Process], folder: Path, end: float, jobs: int) -> list[int | None]:
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda process: process.run(folder, end), processes))


if __name__ == "__main__":
    main()
