"""Found files: the compiled kernels in the folders of other caches, by their names.

Anybody may have written these folders. No link is followed, no object is opened, and only ``meta.json`` is read, up to
a limit.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from precast.loader.contract.format import fields
from precast.loader.errors import ConfigError, FormatError

Kind = Literal["named", "digest", "other"]

MOST = 200_000
DEPTH = 16
META, META_LIMIT = "meta.json", 1 << 16
NAMED_FOLDER = "_cute_dsl"
_EXTENSIONS = (".o", ".so")
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFile:
    """One compiled file: where it is, and what its location shows about its key."""

    path: Path
    is_link: bool = False

    @property
    def stem(self) -> str:
        """Its name without the extension."""
        return self.path.name.rpartition(".")[0]

    @property
    def kind(self) -> Kind:
        """Whether a name that has arguments, or a digest of the key, identifies it.

        >>> FoundFile(path=Path(f"/c/topk_sm90a_cute_dsl/k8.o")).kind, FoundFile(path=Path(f"/c/{'0' * 64}.o")).kind
        ('named', 'digest')
        """
        if self.path.parent.name.endswith(NAMED_FOLDER):
            return "named"
        return "digest" if _DIGEST.fullmatch(self.stem) else "other"


@dataclass(frozen=True, slots=True)
class NoMeta:
    """Why the ``meta.json`` of a folder cannot be used."""

    reason: str


def found_files(folder: Path) -> Iterator[FoundFile]:
    """Every compiled file below a folder, in the order of their paths."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a folder: name the folder of a cache")
    top = os.path.realpath(folder)
    number = 0
    for root, folders, names, handle in os.fwalk(top, onerror=_refuse):
        folders.sort()
        number += len(folders) + len(names)
        if number > MOST:
            raise ConfigError(f"{folder} has more than {MOST} files: name the folder of one cache in it")
        if len(Path(root).relative_to(top).parts) > DEPTH:
            raise ConfigError(f"{folder} nests deeper than {DEPTH} folders: name the folder of one cache in it")
        for name in sorted({*names, *folders}):
            mode = _mode(name, handle) if name.endswith(_EXTENSIONS) else 0
            if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
                yield FoundFile(path=Path(root, name), is_link=stat.S_ISLNK(mode))


def _mode(name: str, handle: int) -> int:
    """What an entry of an open folder is, a link not followed; 0 if it was removed."""
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
    except OSError:
        return 0


def _refuse(error: OSError) -> None:
    raise ConfigError(f"{error.filename!a} cannot be read ({error.strerror}): correct its permissions") from None


def read_meta(folder: Path) -> dict[str, Any] | NoMeta:
    """What the ``meta.json`` of a folder holds: texts by name."""
    path = folder / META
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return NoMeta(f"{META} cannot be read ({error.strerror})")
    with open(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return NoMeta(f"{META} is not a file")
        data = file.read(META_LIMIT + 1)
    try:
        meta = fields.as_object(fields.read_json(data, limit=META_LIMIT))
        return {name: fields.text(value) for name, value in meta.items()}
    except FormatError:  # its message may have text of the file
        return NoMeta(f"{META} is malformed")
