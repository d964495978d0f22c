"""A real Dask cluster on loopback: a scheduler and workers, each a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path


class DaskCluster:
    """A scheduler and some workers, ended with the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        self._start("distributed.cli.dask_scheduler", "--scheduler-file", file, "--port", "0", "--no-dashboard")
        deadline = time.monotonic() + 30
        while not file.exists() or not file.read_text():
            assert time.monotonic() < deadline and self.processes[0].poll() is None
            time.sleep(0.05)
        self.address: str = json.loads(file.read_text())["address"]

    def worker(self, name: str, **env: str) -> subprocess.Popen[bytes]:
        """One more worker, of one thread, with a folder of its own."""
        words = ("--no-nanny", "--no-dashboard", "--nthreads", "1", "--name", name)
        return self._start(
            "distributed.cli.dask_worker", self.address, *words, "--local-directory", self._folder / name, **env
        )

    def _start(self, module: str, *words: object, **env: str) -> subprocess.Popen[bytes]:
        code = f"from {module} import main; main(prog_name='dask')"
        with (self._folder / f"log{len(self.processes)}").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", code, *map(str, words), "--host", "127.0.0.1"],
                cwd=self._folder,
                env={**os.environ, **env},
                stdout=log,
                stderr=log,
            )
        self.processes.append(process)
        return process

    def end(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()
