"""Processes that a fork server starts: they behave as those that ``subprocess.Popen`` starts, without the imports.

A server is started for each environment, except for the variables that its children may have of their own, and ends by
itself. ``precast`` is a program that may be started so; ``forked_children`` has its child processes.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import BinaryIO

from tests.helpers.forks.server import COMPILER, Request

_SERVER = Path(__file__).parent / "server.py"
_CHILDREN = "tests.helpers.forks.forked_children"
_OWNER = "TEST_FORKS"  # in the environment: the folder of the sockets, and the process that owns the servers
_EARLY = ("HOME", "LANG", "LANGUAGE", "PATH", "PRECAST_ATTACH", "PRECAST_CUDA", _OWNER)
_EARLY_PREFIXES = ("LC_", "LD_", "PYTHON", "TYPER_")
_IMPORTED = (
    "cuda", "cutlass", "elftools", "numpy", "nvidia_cutlass_dsl", "packaging", "precast", "rich", "sitecustomize",
    "torch", "tvm_ffi", "typer", "typing_extensions", "usercustomize", "yaml", "zstandard",
)  # fmt: skip
_servers: list[subprocess.Popen[bytes]] = []  # kept, since Popen warns where one is given up


class NotServed(Exception):
    """No server forks this process: it must be started as usual."""


class ForkedProcess:
    """A process that a fork server starts."""

    def __init__(self, request: Request, descriptors: Sequence[int], modules: Sequence[str]) -> None:
        self._connection = _connected(request.environment, modules)
        socket.send_fds(self._connection, [request.encode()], list(descriptors))
        self.pid = self._number(None)
        self.returncode: int | None = None
        self.stdin: BinaryIO | None = None
        self.stdout: BinaryIO | None = None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; negative is the number of a signal."""
        if self.returncode is None:
            try:
                self.returncode = self._number(timeout)
            except TimeoutError:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0) from None
            self._connection.close()
        return self.returncode

    def _number(self, timeout: float | None) -> int:
        self._connection.settimeout(timeout)
        try:
            data = self._connection.recv(4)
        except ConnectionResetError:
            data = b""
        if len(data) < 4:
            raise NotServed
        return int(struct.unpack("i", data)[0])


def run(
    words: Sequence[object], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``precast`` to its end. Its child processes are forked, too."""
    modules = ("precast.cli.main", "precast.cli.make.build", "precast.cli.make.plan", _CHILDREN)
    before = (f"{_CHILDREN}:fork_children",)
    return _finish("precast.cli.main:run", words, ("-m", "precast.cli.main"), modules, environment, folder, before)


def run_code(
    words: Sequence[object], environment: Mapping[str, str], modules: Sequence[str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``python -c`` with these words to its end, in a process that has imported these modules before."""
    return _finish(f"{__name__}:execute", words, ("-c",), (*modules, __name__), environment, folder)


def execute() -> None:
    """Run the code that is the first argument of this process, as its program."""
    code, sys.argv[:] = sys.argv[1], ["-c", *sys.argv[2:]]
    program = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), vars(program))


def _finish(
    call: str,
    words: Sequence[object],
    started: Sequence[str],
    modules: Sequence[str],
    environment: Mapping[str, str] | None,
    folder: Path | None,
    before: tuple[str, ...] = (),
) -> subprocess.CompletedProcess[str]:
    """Run a process to its end: a fork that calls a function, or what Python is started with instead."""
    environment = os.environ if environment is None else environment
    request = Request(
        call=call,
        arguments=tuple(map(str, words)),
        environment=dict(environment) | {_OWNER: _home()},
        folder=str(folder or Path.cwd()),
        descriptors=(0, 1, 2),
        new_session=False,
        before=before,
    )
    command = [sys.executable, *started, *request.arguments]
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            numbers = [file.fileno() for file in (nothing, output, errors)]
            code = ForkedProcess(request, numbers, modules).wait(600)
        except NotServed:
            code = subprocess.run(
                command, env=environment, cwd=folder, stdin=nothing, stdout=output, stderr=errors, timeout=600
            ).returncode
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(command, code, *texts)


@cache
def _home() -> str:
    """The folder of this process's sockets, and the process that the servers end with."""
    if home := os.environ.get(_OWNER):
        return home
    folder = tempfile.mkdtemp(prefix="forks-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return f"{folder}:{os.getpid()}"


def _connected(environment: Mapping[str, str], modules: Sequence[str]) -> socket.socket:
    """A connection to the server of an environment.

    The first request for an environment starts it; the second, where it imports torch: that takes longer than what is
    forked, so that such a server has no use where there is only one.
    """
    folder, _, owner = _home().rpartition(":")
    own = {name: value for name, value in environment.items() if _is_early(name, COMPILER in modules)}
    if cuda := os.environ.get("PRECAST_CUDA"):  # a worker has the toolkit by its settings; a server, by the variable
        own.setdefault("PRECAST_CUDA", cuda)
    if paths := [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path and _shadows(path)]:
        own["PYTHONPATH"] = os.pathsep.join(paths)
    key = hashlib.sha256(json.dumps([sorted(own.items()), *modules]).encode()).hexdigest()[:24]
    path = Path(folder, key)
    with open(path.with_suffix(".lock"), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        requested = path.with_suffix(".requested")
        if "torch" in modules and not requested.exists():
            requested.touch()
            raise NotServed
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
        except OSError:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            _start_server(path, own, [owner, *modules])
            connection.connect(str(path))
    return connection


def _is_early(name: str, compiler: bool) -> bool:
    """Whether a variable may be read while a server starts: a child then needs one with the same value."""
    if name == "PYTHONPATH":
        return False
    if compiler:  # the DSL reads many
        return name in _EARLY or not name.startswith(("PRECAST_", "PYTEST_"))
    return name in _EARLY or name.startswith(_EARLY_PREFIXES)


def _shadows(path: str) -> bool:
    """Whether a folder of PYTHONPATH may replace or hide a module that a server imports."""
    return any(Path(path, name).exists() for top in _IMPORTED for name in (top, f"{top}.py"))


class _Server(subprocess.Popen[bytes]):
    def __del__(self) -> None:
        """No warning: a server outlives the process that started it, since others use it, too."""


def _start_server(path: Path, environment: Mapping[str, str], arguments: Sequence[str]) -> None:
    _servers[:] = [server for server in _servers if server.poll() is None]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(64)
        server = _Server(
            [sys.executable, str(_SERVER), str(listener.fileno()), *arguments],
            env=environment,
            pass_fds=(listener.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=path.parent,
        )
    _servers.append(server)
