"""Regular files: the one way to open what others may have written. No link is followed, no pipe is waited for, and no
more is read than a limit."""

from __future__ import annotations

import errno
import os
import stat

FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def open_regular(path: str | os.PathLike[str]) -> int:
    """A descriptor of a regular file. Raises OSError for a link, a folder, a pipe, a socket and a device."""
    file = os.open(path, FLAGS)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    raise OSError(errno.EINVAL, "it is not a regular file")


def read_regular(path: str | os.PathLike[str], limit: int) -> bytes:
    """The bytes of a regular file, at most ``limit``. Raises OSError for others, and for a larger one.

    >>> read_regular("/dev/zero", 10)
    Traceback (most recent call last):
    OSError: [Errno 22] it is not a regular file
    """
    file = open_regular(path)
    try:
        size = os.fstat(file).st_size
        data = b"" if size > limit else read_at_most(file, limit + 1, size)
    finally:
        os.close(file)
    if max(size, len(data)) > limit:
        raise OSError(errno.EFBIG, f"it has more than {limit} bytes")
    return data


def read_at_most(file: int, most: int, size: int) -> bytes:
    """The bytes of a regular file of about this size: a buffer of ``most`` bytes takes longer to allocate than to fill.

    One read is enough for a file of that very size; a file that changes, or is read in parts, takes several.
    """
    chunk = os.read(file, min(most, size + 1))
    if len(chunk) in (size, most):
        return chunk
    chunks = [chunk]
    while chunk and (most := most - len(chunk)) > 0:
        chunk = os.read(file, min(most, size + 1))
        chunks.append(chunk)
    return b"".join(chunks)
