"""Where the examples of errors are raised: a folder, small caches, and the machine that the loader takes for its."""

from __future__ import annotations

import os
import pickle
import platform
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from precast.loader import session
from precast.loader.contract.values import replace
from precast.loader.machine.machine import Machine, Machines
from tests.helpers.caches import Native, demo
from tests.helpers.echo import HOPPER

_DIGEST = "3f2a91c0d5b8"
NOWHERE = replace(HOPPER, capability=None, absent="libcuda.so.1 is not installed")


@dataclass(frozen=True)
class Stage:
    """The folder of one example, and what it may use there."""

    folder: Path
    native: Native
    patch: pytest.MonkeyPatch

    def cache(self, name: str = "cache") -> Path:
        """A small cache: ``scale`` for three dtypes on two targets, and ``twice``."""
        return demo(self.native).write(self.folder / name)

    def serve(self, machine: Machine = HOPPER) -> Path:
        """A small cache, which ``loader.get`` uses on a machine: by default one with a Hopper GPU."""
        path = self.cache()
        self.patch.setenv("PRECAST_CACHE_PATH", str(path))
        session.use(session.Session(machines=Machines(machine)))
        return path

    def write(self, name: str, text: str) -> Path:
        """A text file in the folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def elsewhere(self, script: str) -> None:
        """Run a script in a process of its own, which may import the compiler or fork, and raise what it raised."""
        code = (
            "import pickle, sys\nfrom precast.loader.errors import PrecastError\n"
            f"try:\n{textwrap.indent(script, '    ')}\n"
            "except PrecastError as error:\n    sys.stdout.buffer.write(b'RAISED' + pickle.dumps(error))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=self.folder)
        _, found, error = done.stdout.partition(b"RAISED")
        assert found, done.stderr.decode()
        raise pickle.loads(error)

    def plain(self, message: str) -> str:
        """A message as the page shows it: without what differs between machines and runs."""
        text = message.replace(str(self.folder), "/work").replace(platform.machine(), "x86_64")
        for digits in (64, 12, 8):  # digests of what this machine's gcc made
            shown = _DIGEST[:12] + "..." if digits == 64 else _DIGEST[:digits]
            text = re.sub(rf"\b(?=[0-9a-f]*[0-9])[0-9a-f]{{{digits}}}\b", shown, text)
        return text.replace(os.path.realpath(str(self.folder)), "/work")


Example = Callable[[Stage], object]
