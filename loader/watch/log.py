"""The log: the standard logger ``precast``, with a handler that writes whole lines.

It uses the standard library's ``logging``, so that a program can add its own handlers to this logger and set its
level. This module is imported only where ``PRECAST_LOG`` turns the log on: the loader itself never imports ``logging``.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping

from precast.loader.watch.notice import notice

LEVELS = {
    "1": logging.INFO,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
OFF = ("", "0")
_STDERR = 2
# O_NONBLOCK: opening a FIFO without a reader must not stop the program.
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK


class WholeLines(logging.Handler):
    """Writes each message in one write, so that lines of several threads and processes do not mix.

    >>> one = logging.LogRecord("precast", logging.INFO, "", 0, "loaded %s", ("scale",), None)
    >>> print(WholeLines.text(one).partition("Z ")[2].replace(str(one.process), "PID"), end="")
    PID INFO loaded scale
    """

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file

    @staticmethod
    def text(record: logging.LogRecord) -> str:
        """The lines of a message, each with time, process and level before it. Control characters are escaped: a name
        must not look like a line of its own, nor change a terminal."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        head = f"{moment}.{int(record.msecs):03d}Z {record.process} {record.levelname} "
        return "".join(f"{head}{_shown(line)}\n" for line in record.getMessage().split("\n"))

    def emit(self, record: logging.LogRecord) -> None:
        """Write a message. A failure is reported once."""
        try:
            os.write(self._file, self.text(record).encode("utf-8", "backslashreplace"))
        except Exception as error:
            notice(f"the log cannot be written ({error}): its lines are lost")

    def close(self) -> None:
        """Close the file."""
        if self._file != _STDERR:
            os.close(self._file)
        super().close()


def _shown(line: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def logger_for(variables: Mapping[str, str]) -> logging.Logger | None:
    """The logger that the variables turn on, with its handler, or None.

    >>> logger_for({"PRECAST_LOG": "0"}) is None
    True
    """
    level = variables.get("PRECAST_LOG", "").strip().lower()
    if level in OFF:
        return None
    if level not in LEVELS:
        notice(f"PRECAST_LOG={level[:40]!r} is not a level: logging at 'info'; use debug, info, warning, error or 0")
    logger = logging.getLogger("precast")
    for old in [handler for handler in logger.handlers if isinstance(handler, WholeLines)]:
        logger.removeHandler(old)
        old.close()
    logger.addHandler(WholeLines(_opened(variables.get("PRECAST_LOG_FILE", ""))))
    logger.setLevel(LEVELS.get(level, logging.INFO))
    logger.propagate = False  # else a program with a handler on standard error would have every line twice
    return logger


def _opened(path: str) -> int:
    if not path:
        return _STDERR
    try:
        return os.open(path, _APPEND, 0o666)
    except OSError as error:
        notice(f"PRECAST_LOG_FILE: {path} cannot be written ({error.strerror}): the log goes to standard error")
        return _STDERR
