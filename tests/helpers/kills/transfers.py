"""Where transfers of caches are killed: two caches, what serves one of them, and where it is moved to."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from precast.fetch.fetcher import fetch
from tests.helpers.builds import command, tree
from tests.helpers.kills.supervised import Supervised
from tests.helpers.web.many import many
from tests.helpers.web.registry import PROGRAM

BLOBS = 300
LIMIT = 120.0
"""Seconds after which a transfer hangs: it retries for half a minute where nothing answers."""


class RegistryProcess:
    """A registry that can be killed and started again, on the same port with the same files."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.host = f"127.0.0.1:{self._port}"
        folder.mkdir()
        self._config = folder / "config.yml"
        self._config.write_text(
            "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
            f"storage: {{filesystem: {{rootdirectory: {folder / 'data'}}}}}\nhttp: {{addr: '{self.host}'}}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The number of the process; 0 if it was not started."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start it, unless it runs, and wait until it answers."""
        assert PROGRAM is not None
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [PROGRAM, "serve", self._config],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                assert self._process.poll() is None
                time.sleep(0.02)

    def end(self, number: int = signal.SIGKILL) -> None:
        """End it with a signal."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()


class TransferSite:
    """Two caches, the folder that they are moved to, and temporary files in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.temporary = folder, folder / "temporary"
        self.temporary.mkdir(parents=True)
        self.before = many(folder / "old", blobs=BLOBS, largest=6000)
        self.after = many(folder / "new", blobs=BLOBS, largest=6000, new=BLOBS // 2)
        self.old, self.new = tree(self.before), tree(self.after)
        self.target = folder / "fetched" / "cache"
        self.dist = folder / "dist"
        self.registry = RegistryProcess(folder / "registry")

    def precast(self, *arguments: object) -> Supervised:
        """Start ``precast``."""
        return Supervised(command(*arguments), self._environment())

    def loader_fetch(self, reference: str) -> Supervised:
        """Start the fetch of the loader alone."""
        words = [sys.executable, "-m", "precast.loader.fetch", reference, "-o", str(self.target)]
        return Supervised(words, self._environment())

    def undo(self) -> None:
        """The old cache is where fetches write, and no wheel is there."""
        shutil.rmtree(self.target.parent, ignore_errors=True)
        shutil.rmtree(self.dist, ignore_errors=True)
        shutil.copytree(self.before, self.target)

    def problems(self) -> Iterator[str]:
        """Whether what was fetched is neither the old nor the new cache."""
        if self.target.exists() and tree(self.target) not in (self.old, self.new):
            yield "the fetched cache is neither the old one nor the new one"

    def fetched_from(self, reference: str, place: Path) -> bool:
        """Whether the new cache is what is fetched from there."""
        fetch(reference, place)
        same = tree(place) == self.new
        shutil.rmtree(place)
        return same

    def leftovers(self) -> Iterator[str]:
        """Temporary files that are still there."""
        found = [*self.temporary.iterdir(), *self.target.parent.glob(".*"), *self.dist.glob(".*")]
        yield from (f"left behind: {path.relative_to(self.folder)}" for path in found)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": str(self.temporary), "SOURCE_DATE_EPOCH": "1767225600"}
