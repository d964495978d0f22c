"""The lists of files (``RECORD``) that installers write for distributions."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

INFO = ".dist-info"
_TOP = re.compile(r"^([^/\n]*?)(?:/|,[^,\n]*,[^,\n]*$)", re.MULTILINE)
COUNTED = ("METADATA", "entry_points.txt")
"""The files of a metadata folder that count; the others describe how it was installed."""


class Distribution(NamedTuple):
    """An installed distribution, by the folder that has it and its folder of metadata."""

    folder: str
    name: str  # of the metadata folder

    @property
    def distribution(self) -> str:
        """Its name, in the one spelling."""
        return normalised(self.name.removesuffix(INFO).rpartition("-")[0])

    @property
    def version(self) -> str:
        """Its version."""
        return self.name.removesuffix(INFO).rpartition("-")[2]


def normalised(name: str) -> str:
    """The one spelling of a distribution's name.

    >>> normalised("Foo.Bar_baz")
    'foo-bar-baz'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def is_metadata(name: str) -> bool:
    """Whether a folder of this name has the metadata of a distribution.

    >>> is_metadata("acme-1.0.dist-info"), is_metadata("acme")
    (True, False)
    """
    return name.endswith((INFO, ".egg-info"))


def distributions_in(folder: str) -> list[Distribution]:
    """The distributions of a folder that have a list of their files."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(INFO))
    except OSError:
        return []
    return [Distribution(folder, name) for name in names if os.path.isfile(os.path.join(folder, name, "RECORD"))]


def files_of(record: str) -> Iterable[tuple[str, str]]:
    """The files of a list, each with its digest as it is written there."""
    text = _text(record)
    quoted = '"' in text
    for line in text.splitlines():
        row = next(csv.reader([line]), []) if quoted and '"' in line else line.rsplit(",", 2)
        if len(row) == 3 and row[0]:
            yield row[0], row[1]


def tops_of(record: str) -> set[str]:
    """The first parts of the paths in a list: all lists of an environment are read at once, so this is fast."""
    text = _text(record)
    if '"' in text:
        return {file.partition("/")[0] for file, _ in files_of(record)}
    return set(_TOP.findall(text))


def _text(record: str) -> str:
    try:
        with open(record, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def header_of(metadata: str) -> str:
    """The fields at the top of a file of metadata."""
    return _text(metadata).partition("\n\n")[0]


def counts(file: str) -> bool:
    """Whether a file can change what is compiled: not the byte code of a source, nor a record of the installation."""
    if "__pycache__/" in file or file.startswith(("..", "/")):
        return False
    folder, slash, name = file.partition("/")
    return not slash or not folder.endswith(INFO) or name in COUNTED
