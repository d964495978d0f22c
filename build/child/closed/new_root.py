"""A new root folder, in memory, with the parts of the old one that a compilation may read: all else is absent.

It has a network of its own without any other machine, the same host name everywhere, and no shared memory of others.
The processes that are started inherit it. It is made with namespaces, which need no privilege where the kernel lets
users make them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
from contextlib import suppress

from precast.build.child.closed import system_calls as calls

HOST = "/.host"
"""Where the old root is, in a process that makes further new roots."""
_AT = "/sys"  # a folder of every system, whose content no compilation needs
_OLD = "/.old"
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
TEMPORARY = "/tmp/precast"
"""Where temporary files go: a folder of its own, so that code which empties it leaves sources that are below /tmp."""
_FOLDERS = ("/dev/shm", TEMPORARY, "/sys", "/home/precast")
# One processor is described, since torch's cpuinfo crashes in the first operation on the CPU of some processors where
# the file describes none.
_FACTS = {"cpuinfo": "processor\t: 0\napicid\t\t: 0\n"}
_NAMES = calls.NEW_MOUNTS | calls.NEW_NETWORK | calls.NEW_NAME | calls.NEW_IPC | calls.NEW_GROUPS
_SMALL = 1 << 20
_SIZE = "size=64g,nr_inodes=16m"  # the same on all machines: by default, a half of the memory


class NewRoot:
    """The new root while it is made: ``add`` what it has, then ``enter`` it."""

    def __init__(self) -> None:
        self._source = HOST if os.path.isdir(HOST) else ""
        self._hidden: list[str] = []
        os.umask(0o022)
        _unshare()
        calls.mount(None, "/", None, calls.RECURSIVE | calls.PRIVATE)
        calls.mount("tmpfs", _AT, "tmpfs", calls.NO_ACCESS_TIMES, _SIZE)
        for folder in _FOLDERS:
            os.makedirs(_AT + folder, exist_ok=True)
        for path in (*_DEVICES, "/proc"):
            self.add(path)
        os.symlink("/proc/self/fd", f"{_AT}/dev/fd")

    def add(self, path: str, *, read_only: bool = False) -> None:
        """Let a file or folder be there, with the links on the way to it. What does not exist is left out."""
        path = self._planted(path)
        source, target = self._source + path, _AT + path
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
        elif os.path.exists(source):
            if not os.path.lexists(target):
                os.close(os.open(target, os.O_WRONLY | os.O_CREAT))
        else:
            return
        calls.mount(source, target, None, calls.BIND | calls.RECURSIVE)
        if read_only:
            calls.make_read_only(target)

    def copy(self, path: str) -> bool:
        """Let a file, or all that is in a folder, be there as copies, with their content at this moment and without
        their times and owners, and in one order; what is large is there itself.

        A link in a folder is copied as a link: what it leads to outside of the folder is an input of its own, or none.
        What is neither a file nor a folder, such as a socket, is not there. False if something is too large for a copy.
        """
        path = self._planted(path)
        source, target = self._source + path, _AT + path
        if os.path.isdir(source):
            os.makedirs(target, exist_ok=True)
            names = sorted(name for name in os.listdir(source) if name != "__pycache__")
            links = [name for name in names if os.path.islink(f"{source}/{name}")]
            for name in links:
                if not os.path.lexists(f"{target}/{name}"):
                    os.symlink(os.readlink(f"{source}/{name}"), f"{target}/{name}")
            copied = [self.copy(os.path.join(path, name)) for name in names if name not in links]
            return all(copied)
        if os.path.isfile(source) and os.path.getsize(source) > _SMALL:
            self.add(path, read_only=True)
            return False
        if os.path.isfile(source) and not os.path.lexists(target):
            shutil.copyfile(source, target)
            os.chmod(target, 0o755 if os.stat(source).st_mode & 0o111 else 0o644)
            os.utime(target, (0, 0))
        return True

    def hide(self, folder: str) -> None:
        """Let a folder be there that is empty, whether or not it is in one that was added."""
        path = self._planted(folder)
        if os.path.isdir(self._source + path):
            os.makedirs(_AT + path, exist_ok=True)
            calls.mount("tmpfs", _AT + path, "tmpfs", 0, _SIZE)
            self._hidden.append(path)

    def enter(self, name: str, *, keep_host: bool = False) -> None:
        """Go there. With ``keep_host`` the old root stays below it, for processes that make a root of their own."""
        if not keep_host:
            _hide_facts()
            for folder in self._hidden:
                calls.make_read_only(_AT + folder)
        calls.set_host_name(name)
        _start_loopback()
        old = HOST if keep_host else _OLD
        os.makedirs(_AT + old)
        calls.pivot_root(_AT, _AT + old)
        os.chdir("/")
        if not keep_host:
            calls.detach(_OLD)
            os.rmdir(_OLD)

    def _planted(self, path: str) -> str:
        """The path without links, after its folders and the links on the way were made."""
        done, waiting = "", [part for part in os.path.abspath(path).split("/") if part]
        for _ in range(1000):
            if not waiting:
                break
            here = f"{done}/{waiting.pop(0)}"
            if os.path.islink(self._source + here):
                text = os.readlink(self._source + here)
                if not os.path.lexists(_AT + here):
                    os.symlink(text, _AT + here)
                target = os.path.normpath(os.path.join(done or "/", text))
                waiting = [*(part for part in target.split("/") if part), *waiting]
                done = ""
                continue
            if waiting and not os.path.isdir(_AT + here):
                os.makedirs(_AT + here, exist_ok=True)
            done = here
        return done


def _hide_facts() -> None:
    """Let ``/proc`` describe processes only: facts of this machine and this moment are absent."""
    for fact in sorted(os.listdir(f"{_AT}/proc")):
        path, text = f"{_AT}/proc/{fact}", f"{_AT}/.{fact}"
        with suppress(OSError):  # where nothing may be mounted on one of them
            if fact.isdigit() or os.path.islink(path):
                continue
            if os.path.isdir(path):
                calls.mount("tmpfs", path, "tmpfs", 0, _SIZE)
                continue
            with open(text, "w", opener=lambda name, flags: os.open(name, flags, 0o444)) as file:
                file.write(_FACTS.get(fact, ""))
            calls.mount(text, path, None, calls.BIND)
            os.unlink(text)


def _unshare() -> None:
    """Namespaces of its own: as the superuser; else, as any user, with a namespace of users in which it is that."""
    try:
        calls.unshare(_NAMES)
        return
    except OSError:
        user, group = os.geteuid(), os.getegid()
        calls.unshare(_NAMES | calls.NEW_USER)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def _start_loopback() -> None:
    """Let processes of the compilation reach each other by 127.0.0.1."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 1 | 64))
