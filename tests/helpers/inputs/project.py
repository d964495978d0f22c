"""A small project of a user, and a process that is closed as a build's are and imports its kernel."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from precast.build.disk.memo import Memo
from precast.build.inputs.closure import Closure, Closures, Reads, declared_names
from precast.build.inputs.input_answers import InputAnswers
from precast.build.inputs.inputs import Inputs
from precast.build.inputs.roots import Roots
from precast.build.inputs.sources import SourceDigests
from precast.build.ipc.environment import child_environment
from precast.loader.contract.format.target import Target

_SERVER = """
import json, os, site, sys
for folder in sys.argv[1:]:
    site.addsitedir(folder)
    try: import sitecustomize
    except ImportError: pass
import precast.build.child.worker_main
from precast.build.child.closed.refusals import explained
from precast.build.child.closed.world import World
from precast.build.child.source_only import SourceOnly
from precast.build.child.serve import missing_module


def answer(request):
    sys.path[:0] = [request["search"]]
    sys.path += request["path"]
    if request["by"]:
        os.environ["PRECAST_CLOSED_BY"] = request["by"]
    world = World.begin([request["search"]])
    SourceOnly().install()
    world.close(request["closure"], again=request["again"])
    try:
        import kernel
        return {"value": repr(getattr(kernel, "VALUE", None)), "by": world.by, "copies": world.copies}
    except BaseException as error:
        error = explained(error)
        return {"error": f"{type(error).__name__}: {error}", "by": world.by, **missing_module(error)}


for line in sys.stdin:
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.write(writing, json.dumps(answer(json.loads(line))).encode()[:60000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        print(pipe.read() or '{"error": "it ended"}', flush=True)
    os.waitpid(pid, 0)
"""


class Server:
    """A process that forks one for each request; the forks are closed. It starts like a worker, after ``state``, with
    these folders as further ones with installed packages."""

    def __init__(self, state: Callable[[], object] | None = None, sites: Iterable[Path] = ()) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, *map(str, sites)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=child_environment(os.environ, target=Target.parse("sm_90a")),
            start_new_session=True,
            preexec_fn=state,
        )

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The reply to one request."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        reply: dict[str, Any] = json.loads(self._process.stdout.readline())
        return reply

    def close(self) -> None:
        """End it."""
        self._process.communicate()


@contextlib.contextmanager
def serving(state: Callable[[], object] | None = None, sites: Iterable[Path] = ()) -> Iterator[Server]:
    """A server for the block."""
    server = Server(state, sites)
    try:
        yield server
    finally:
        server.close()


class Project:
    """Folders of a user: ``search`` with ``kernel.py``, ``site`` with distributions, ``tools`` on Python's path, and
    ``outside`` with anything else."""

    def __init__(self, folder: Path, memo: Path | None = None) -> None:
        self.folder = folder
        self.search, self.site, self.outside = map(self._make, ("search", "venv/site-packages", "outside"))
        self.tools = self._make("tools")
        self.path = (str(self.site), str(self.tools))
        self.memo = Memo(memo or self._make("memo"))
        self.declared: tuple[str, ...] = ()

    def _make(self, name: str) -> Path:
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        return self.folder / name

    def write(self, files: Mapping[str, str], folder: Path | None = None) -> None:
        """Write files below a folder; the search folder unless another is named."""
        for name, text in files.items():
            path = (folder or self.search) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def install(
        self, name: str, version: str, files: Mapping[str, str], *extra: str, requires: Iterable[str] = ()
    ) -> None:
        """Install a distribution as pip does, with a list of its files."""
        info = f"{name}-{version}.dist-info"
        lines = "".join(f"Requires-Dist: {other}\n" for other in requires)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}"
        everything = {**files, f"{info}/METADATA": metadata}
        self.write(everything, self.site)
        rows = [f"{file},{_recorded(text)},{len(text)}" for file, text in everything.items()]
        self.write({f"{info}/RECORD": "\n".join([*rows, *extra, f"{info}/RECORD,,", ""])}, self.site)

    def closures(self) -> Closures:
        """The closures at this moment."""
        return Closures(SourceDigests([self.search], self.memo), self.answers())

    def answers(self) -> InputAnswers:
        """The values of inputs at this moment."""
        return InputAnswers(Roots([self.search], [*filter(None, sys.path), *self.path]), self.memo)

    def closure(self, closures: Closures | None = None) -> Closure:
        """What ``kernel.py`` may read."""
        closures = closures or self.closures()
        names = declared_names(self.declared, closures.answers.roots)
        return closures.of([Reads(source="kernel:build", declared=names)])

    def inputs(self) -> Inputs:
        """The inputs of ``kernel.py``."""
        return Inputs.of(self.answers().answers(self.closure().names))

    def run(self, server: Server, *, again: bool = False, by: str = "") -> dict[str, Any]:
        """Import the kernel in a closed process."""
        return self._ask(server, self.closure(), again=again, by=by)

    def run_with_inputs(self, server: Server) -> tuple[dict[str, Any], Inputs]:
        """The same, and then the inputs, by one reading of what is installed."""
        closures = self.closures()
        closure = self.closure(closures)
        return self._ask(server, closure), Inputs.of(closures.answers.answers(closure.names))

    def _ask(self, server: Server, closure: Closure, *, again: bool = False, by: str = "") -> dict[str, Any]:
        places = {"search": str(self.search), "path": self.path}
        return server.ask({**places, "closure": closure.to_json(), "again": again, "by": by})


def _recorded(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
