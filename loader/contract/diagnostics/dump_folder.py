"""The folder of a dump: writing it as a whole, reading it with every size checked, and finding the call to replay."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from precast.loader.contract.diagnostics.dump import HEADER_LIMIT, Dump
from precast.loader.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")

HEADER = "call.json"
_CALL = re.compile(r"call-([0-9]{12})", re.ASCII)


def call_name(number: int) -> str:
    """The folder of a call: by name they are in order.

    >>> call_name(7)
    'call-000000000007'
    """
    return f"call-{number:012d}"


def block_name(number: int) -> str:
    """The file of a block, named by its position in the list.

    >>> block_name(0)
    'memory-0'
    """
    return f"memory-{number}"


def write_dump(folder: Path, dump: Dump, data: Sequence[bytes | None]) -> None:
    """Write a call into the folder of its process; ``data`` holds the bytes of each block, or None for one left out.

    The call is written beside its path and renamed into it, so that a folder of a call is always complete.
    """
    header = dump.encode()
    if len(header) > HEADER_LIMIT:
        raise ValueError(f"its header takes {len(header)} bytes")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # other users must not read the tensors
    unfinished = folder / f".{call_name(dump.number)}"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        unfinished.mkdir(mode=0o700)
        for number, block in enumerate(data):
            if block is not None:
                (unfinished / block_name(number)).write_bytes(block)
        (unfinished / HEADER).write_bytes(header)
        unfinished.rename(folder / call_name(dump.number))
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def remove_dump(folder: Path, number: int) -> None:
    """Remove a call from the folder of its process. It is renamed first, so that a call with its own name is complete
    even if the process is killed here."""
    hidden = folder / f".{call_name(number)}"
    with suppress(OSError):
        (folder / call_name(number)).rename(hidden)
        shutil.rmtree(hidden)


def read_dump(folder: Path) -> Dump:
    """The dump in a folder: its header, checked, and the size of each of its files."""
    dump = Dump.decode(_file(folder / HEADER, HEADER_LIMIT))
    for number, block in enumerate(dump.blocks):
        if not block.left_out:
            path = folder / block_name(number)
            size = _opened(path, lambda file: os.fstat(file).st_size)
            if size != block.size:
                raise FormatError(f"{path} has {size} bytes, but the header states {block.size}: dump the call again")
    return dump


def read_block(folder: Path, dump: Dump, number: int) -> bytes | None:
    """The bytes of a block; None for one that was left out."""
    block = dump.blocks[number]
    if block.left_out:
        return None
    data = _file(folder / block_name(number), block.size)
    if len(data) != block.size:
        raise FormatError(f"{folder / block_name(number)} is shorter than the header states: dump the call again")
    return data


def find_call(path: Path) -> Path:
    """The call that a path means: its own folder, or the last one of the process whose folder it is.

    A folder with several processes is refused, with their names.
    """
    if (path / HEADER).exists():
        return path
    calls = sorted(folder for folder in _folders(path) if _CALL.fullmatch(folder.name))
    if calls:
        return calls[-1]
    processes = [folder for folder in _folders(path) if any(_CALL.fullmatch(call.name) for call in _folders(folder))]
    if len(processes) == 1:
        return find_call(processes[0])
    if processes:
        listed = ", ".join(sorted(folder.name for folder in processes)[:20])
        raise ConfigError(f"{path} holds calls of {len(processes)} processes ({listed}): name the folder of one")
    raise ConfigError(f"{path} holds no dumped call: give the folder that PRECAST_DUMP named, or one in it")


def next_call(folder: Path) -> Path | None:
    """The next call of the same process, if it was kept."""
    match = _CALL.fullmatch(folder.name)
    after = folder.with_name(call_name(int(match[1]) + 1)) if match else None
    return after if after is not None and (after / HEADER).exists() else None


def _folders(path: Path) -> list[Path]:
    try:
        return [folder for folder in path.iterdir() if folder.is_dir() and not folder.is_symlink()]
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}): give a folder of dumped calls") from None


def _file(path: Path, limit: int) -> bytes:
    def read(file: int) -> bytes:
        with os.fdopen(os.dup(file), "rb") as stream:
            return stream.read(limit + 1)

    data = _opened(path, read)
    if len(data) > limit:
        raise FormatError(f"{path} has more than {limit} bytes: give the folder of a dumped call")
    return data


def _opened(path: Path, read: Callable[[int], T]) -> T:
    """The result of ``read`` on a regular file, opened without following a link or waiting for a FIFO."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise FormatError(f"{path} cannot be read ({error.strerror}): give the folder of a dumped call") from None
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise FormatError(f"{path} is not a regular file: give the folder of a dumped call")
        return read(file)
    finally:
        os.close(file)
