"""The companion index: files of other compilers' caches, which a cache carries beside its kernels.

It is a blob that ``index.json`` names, and has the digest of each part of each file. Nothing that resolves or opens a
kernel reads it. Names and sizes are hostile until they are checked here; contents, by ``Cache.read``.
"""

from __future__ import annotations

from typing import Any

from precast.loader.contract.format import fields
from precast.loader.contract.format.artifact import BLOB_LIMIT, Blob
from precast.loader.contract.format.index import check_version, encode
from precast.loader.contract.format.patterns import PART, Pattern
from precast.loader.contract.values import Immutable
from precast.loader.errors import FormatError

FORMAT = "precast-companions"
MOST_COMPANIONS = 64
MOST_FILES = 100_000  # of all companions
MOST_BYTES = 8 << 30
MOST_RELOCATIONS = 1_000_000  # of a file: a compiled model of vLLM names its folder some 2,000 times for each layer
FOLDER = b"@precast-folder@"
"""What a relocated file has in the cache in place of the path of its companion's folder."""

# Printable ASCII without the backslash, which some programs take for a slash; at most 32 steps, none "." or "..".
_STEP = r"[ -.0-\[\]-~]{1,255}"
FILE_PATH = Pattern(rf"(?=.{{1,1024}}\Z)(?!(?:.*/)?\.{{1,2}}(?:/|\Z)){_STEP}(?:/{_STEP}){{0,31}}")


class CompanionFile(Immutable, kw_only=True):
    """One file: its path below the companion's folder, and the blobs whose contents make it up, in their order.

    ``relocations`` counts how often ``FOLDER`` is in them.
    """

    path: str
    blobs: tuple[Blob, ...]
    relocations: int = 0

    def size(self, folder: bytes) -> int:
        """The bytes of the file below a folder."""
        return sum(blob.size for blob in self.blobs) + self.relocations * (len(folder) - len(FOLDER))

    def to_json(self) -> dict[str, Any]:
        relocated = {"relocations": self.relocations} if self.relocations else {}
        return {"path": self.path, "blobs": [blob.to_json() for blob in self.blobs], **relocated}

    @classmethod
    def parse(cls, value: object) -> CompanionFile:
        data = fields.known(fields.as_object(value), ("path", "blobs", "relocations"))
        return cls(
            path=fields.matching(data, "path", FILE_PATH, "a plain path below a folder"),
            blobs=fields.items(data, "blobs", Blob.parse, most=MOST_BYTES // BLOB_LIMIT),
            relocations=fields.count(data, "relocations", most=MOST_RELOCATIONS, default=0),
        )


class CompanionState(Immutable, kw_only=True):
    """The files of one companion, and the facts of the machine and its software that they were made with."""

    name: str
    facts: dict[str, str]
    files: tuple[CompanionFile, ...]

    def to_json(self) -> dict[str, Any]:
        files = [file.to_json() for file in sorted(self.files, key=lambda file: file.path)]
        return {"name": self.name, "facts": self.facts, "files": files}

    @classmethod
    def parse(cls, value: object) -> CompanionState:
        data = fields.known(fields.as_object(value), ("name", "facts", "files"))
        files = fields.items(data, "files", CompanionFile.parse, most=MOST_FILES)
        conflict = _conflict([file.path for file in files])
        if conflict:
            raise FormatError(f"{conflict!r} is the path of two files, or of a file and a folder", "files")
        return cls(
            name=fields.matching(data, "name", PART, "the name of a companion"),
            facts=fields.table(data, "facts", fields.text, most=256),
            files=files,
        )


class CompanionIndex(Immutable, kw_only=True):
    """The companions of a cache, and the command that made their files."""

    command: tuple[str, ...]
    companions: tuple[CompanionState, ...]

    @property
    def blobs(self) -> tuple[Blob, ...]:
        """Every blob of their files, each once."""
        blobs = (blob for state in self.companions for file in state.files for blob in file.blobs)
        return tuple({blob.sha256: blob for blob in blobs}.values())

    def encode(self) -> bytes:
        """The bytes of the blob. Equal indexes have equal bytes.

        >>> CompanionIndex.decode(CompanionIndex(command=("serve",), companions=()).encode()).command
        ('serve',)
        """
        states = [state.to_json() for state in sorted(self.companions, key=lambda state: state.name)]
        return encode({"format": FORMAT, "version": 1, "command": list(self.command), "companions": states})

    @classmethod
    def decode(cls, data: bytes) -> CompanionIndex:
        """Read the blob. Raises a FormatError for names that could reach another folder, and for too much."""
        root = fields.as_object(fields.read_json(data, limit=BLOB_LIMIT))
        check_version(root, FORMAT)
        fields.known(root, ("format", "version", "command", "companions"))
        companions = fields.items(root, "companions", CompanionState.parse, most=MOST_COMPANIONS)
        if len({state.name for state in companions}) != len(companions):
            raise FormatError("one companion is listed twice", "companions")
        files = [file for state in companions for file in state.files]
        if len(files) > MOST_FILES or sum(file.size(FOLDER) for file in files) > MOST_BYTES:
            raise FormatError(f"more than {MOST_FILES} files or {MOST_BYTES} bytes", "companions")
        return cls(command=fields.items(root, "command", fields.text, most=10_000), companions=companions)


def _conflict(paths: list[str]) -> str:
    """A path that two files have, or a file and a folder, where a file system ignores case; else no text."""
    seen: set[str] = set()
    for path in map(str.lower, paths):
        if path in seen:
            return path
        seen.add(path)
    folders: set[str] = set()
    for path in seen:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return next(iter(sorted(seen & folders)), "")
