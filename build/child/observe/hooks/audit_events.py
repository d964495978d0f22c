"""Audit events: those of Python that report a request, and what is reported to the observer for each."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

from precast.build.child.observe.hooks.shell_lines import script_of_shell, shell_requests
from precast.build.child.observe.written_files import WrittenFiles

_SHELLS = ("sh", "bash", "dash", "ksh", "zsh")
_LONGEST_SCRIPT = 1 << 20


class Audited(Protocol):
    """What takes the reports."""

    written: WrittenFiles

    def note(self, kind: str, what: str) -> None:
        """The running code makes a request."""

    def open_file(self, path: Any, mode: Any, flags: int, *rest: Any) -> None:
        """A file is opened."""

    def check_existence(self, path: Any, *rest: Any) -> None:
        """What is done depends on whether a file exists."""

    def open_database(self, path: Any, *rest: Any) -> None:
        """A database is opened."""

    def list_folder(self, path: Any = None, *rest: Any) -> None:
        """The names of a folder are read."""

    def start_program(self, name: Any) -> None:
        """A program is started."""

    def start_shell(self, line: str) -> None:
        """A shell is started with a line of commands."""

    def start_process(self, what: str) -> None:
        """A process is started."""

    def end_start(self) -> None:
        """A process was started in another way than as a program."""

    def start_thread(self, function: Any) -> None:
        """A thread is started."""


def audit_handlers(observer: Audited) -> dict[str, Callable[..., None]]:
    """The function for each event, which takes the event's arguments."""

    def program(executable: Any, arguments: Any = (), *_: Any) -> None:
        words = [arguments] if isinstance(arguments, (str, bytes, os.PathLike)) else list(arguments or ())
        observer.start_program(executable or words[0])
        is_shell = os.path.basename(os.fsdecode(words[0])) in _SHELLS
        if len(words) > 2 and words[1] in ("-c", b"-c") and is_shell:
            shell(words[2])
        elif script := script_of(words[1] if is_shell and len(words) > 1 else executable or words[0], is_shell):
            note_requests(script)

    def script_of(path: Any, given: bool) -> str:
        if not os.path.isabs(path):
            return ""
        try:
            with open(path, "rb") as file:
                text = file.read(2)
                text += file.read(_LONGEST_SCRIPT) if given or text == b"#!" else b""
        except (OSError, ValueError):
            return ""
        return text.decode(errors="replace") if given and b"\0" not in text else script_of_shell(text)

    def note_requests(line: str) -> None:
        for kind, name in shell_requests(line):
            observer.note(kind, name)

    def shell(command: Any) -> None:
        observer.start_shell(os.fsdecode(command))
        note_requests(os.fsdecode(command))

    def fork(*_: Any) -> None:
        observer.start_process("os.fork")
        observer.end_start()

    def library(name: Any) -> None:
        if name:
            observer.note("library", absolute(name) if "/" in os.fsdecode(name) else os.fsdecode(name))

    def bind(_: Any, address: Any) -> None:
        if isinstance(address, (str, bytes)) and address:
            written.open(absolute(address), os.O_WRONLY | os.O_CREAT)

    def connect(_: Any, address: Any) -> None:
        if not isinstance(address, (str, bytes)) or not written.has_folder_of(absolute(address)):
            observer.note("network", "socket.connect")  # to a process that this one has not started

    def rename(source: Any, target: Any, *_: Any) -> None:
        old, new = absolute(source), absolute(target)
        if not os.path.lexists(old):
            observer.check_existence(source)
        if old not in written and os.path.isfile(old):
            observer.open_file(old, None, os.O_RDONLY)  # it is read by its new name, if at all
            written.take(new)
        written.rename(old, new)

    def remove(path: Any, *_: Any) -> None:
        if os.path.lexists(path):
            written.remove(absolute(path))
        else:
            observer.check_existence(path)

    def network(event: str) -> Callable[..., None]:
        return lambda *_: observer.note("network", event)

    written = observer.written
    return {
        "open": observer.open_file,
        "os.listdir": observer.list_folder,
        "os.scandir": observer.list_folder,
        "sqlite3.connect": observer.open_database,
        "ctypes.dlopen": library,
        "subprocess.Popen": program,
        "os.fork": fork,
        "os.posix_spawn": program,
        "os.exec": program,
        "os.system": shell,
        "os.mkdir": lambda path, *_: written.make_folder(absolute(path)),
        "os.rename": rename,
        "os.remove": remove,
        "os.rmdir": remove,
        "os.chdir": observer.check_existence,
        "os.chmod": observer.check_existence,
        "os.truncate": observer.check_existence,
        "os.utime": observer.check_existence,
        "shutil.rmtree": lambda path, *_: written.remove(absolute(path)),
        "_thread.start_new_thread": lambda function, *_: observer.start_thread(function),
        "_thread.start_joinable_thread": lambda function, *_: observer.start_thread(function),  # from Python 3.13
        "socket.bind": bind,
        "socket.connect": connect,
        "socket.sendto": network("socket.sendto"),
        "socket.getaddrinfo": network("socket.getaddrinfo"),
        "socket.gethostbyname": network("socket.gethostbyname"),
    }


def absolute(path: Any) -> str:
    """The absolute path in an event.

    >>> absolute(b"/a/../b")
    '/b'
    """
    return os.path.abspath(os.fsdecode(path))
