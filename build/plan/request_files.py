"""Files with the requests of programs, which ``PRECAST_REQUESTS`` named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from precast.loader.contract.diagnostics.requests import (
    FILE_LIMIT,
    RequestLines,
    RequestRecord,
    combined,
    read_requests,
)
from precast.loader.errors import ConfigError, FormatError


def read_request_files(paths: Iterable[Path]) -> tuple[tuple[RequestRecord, ...], tuple[str, ...]]:
    """The requests of several files, each once with the sum of its counts; and a note for each truncated file."""
    requests: list[RequestRecord] = []
    notes = []
    for path in paths:
        lines = _read(path)
        requests += lines.requests
        if lines.cut:
            notes.append(f"{path}: the last line is incomplete and was skipped: the process was ended while writing it")
    return combined(requests), tuple(notes)


def _read(path: Path) -> RequestLines:
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_LIMIT + 1)
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): name a file that PRECAST_REQUESTS wrote"
        ) from None
    if len(data) > FILE_LIMIT:
        raise ConfigError(f"{path} has more than {FILE_LIMIT} bytes: name a file that PRECAST_REQUESTS wrote")
    try:
        return read_requests(data)
    except FormatError as error:
        raise FormatError(f"{path}: {error}") from None
