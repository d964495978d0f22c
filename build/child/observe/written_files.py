"""Written files: the files whose content this process made itself, so that they are not inputs."""

from __future__ import annotations

import os


class WrittenFiles:
    """The files that were made, or emptied, by this process, and the folders that it made.

    >>> written = WrittenFiles()
    >>> written.open("/nowhere/made", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    >>> written.open(__file__, os.O_WRONLY | os.O_CREAT | os.O_EXCL)  # refused: it exists
    >>> written.open(__file__, os.O_WRONLY | os.O_APPEND)  # what was in it stays
    >>> "/nowhere/made" in written, __file__ in written
    (True, False)
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._folders: set[str] = set()
        self._removed: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names or is_inside(name, self._folders)

    def is_removed(self, name: str) -> bool:
        """Whether this process has removed a file, or a folder that it was in."""
        return is_inside(name, self._removed)

    def make_folder(self, name: str) -> None:
        """A folder is about to be made."""
        if not os.path.lexists(name):
            self._folders.add(name)

    def open(self, name: str, flags: int) -> None:
        """A file is about to be opened with these flags; the system may still refuse."""
        if name in self._names or not flags & (os.O_WRONLY | os.O_RDWR):
            return
        if os.path.exists(name):
            creation = bool(flags & os.O_TRUNC) and not flags & os.O_EXCL and os.access(name, os.W_OK)
        else:
            creation = bool(flags & os.O_CREAT)
        if creation:
            self._names.add(name)

    def remove(self, name: str) -> None:
        """A file or a folder is about to be removed."""
        self._removed.add(name)

    def take(self, name: str) -> None:
        """A file is about to be moved here: its content is that of another input."""
        self._names.add(name)

    def has_folder_of(self, name: str) -> bool:
        """Whether this process made a file, or its folder; ``multiprocessing`` makes folders for sockets."""
        return name in self or "/pymp-" in name

    def rename(self, source: str, target: str) -> None:
        """A file is about to get another name."""
        if source in self._names:
            self._names.add(target)


def is_inside(name: str, folders: set[str]) -> bool:
    """Whether a path is one of some folders, or in one.

    >>> is_inside("/a/b", {"/a"}), is_inside("/ab", {"/a"})
    (True, False)
    """
    while folders and len(name) > 1:
        if name in folders:
            return True
        name = name.rpartition("/")[0]
    return False
