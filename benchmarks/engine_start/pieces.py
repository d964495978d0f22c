"""Files as archives of a limited size, each of which is unpacked alone: ``python pieces.py DEST ARCHIVE...``.

A large file is cut into slices, and each archive has as many files and slices as fit. The order in which archives are
unpacked does not matter, so that one is unpacked while the next one travels.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import zstandard

SLICE = 1 << 20
LEVEL = 5
AT = "precast.at"
"""The record of an archive's member that says where in its file a slice begins."""


class Archive:
    """One archive as it is written."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")
        compressor = zstandard.ZstdCompressor(level=LEVEL, threads=2)
        self.stream = compressor.stream_writer(self.file, closefd=False)
        self.tar = tarfile.open(fileobj=self.stream, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115

    def add(self, member: tarfile.TarInfo, data: bytes) -> None:
        """Append a member."""
        self.tar.addfile(member, io.BytesIO(data))

    def size(self) -> int:
        """Bytes that are certainly written."""
        self.stream.flush(zstandard.FLUSH_BLOCK)
        return self.file.tell()

    def close(self) -> None:
        """Finish it."""
        self.tar.close()
        self.stream.close()
        self.file.close()


def pack(contents: Iterable[tuple[str, int, bytes | bytearray]], dest: Path, limit: int) -> list[Path]:
    """Write files (name, mode, bytes) as ``01.tar.zst`` and so on into ``dest``, each below ``limit`` bytes."""
    paths: list[Path] = []
    archive: Archive | None = None
    unflushed = 0
    for member, data in _slices(contents):
        if archive is None:
            paths.append(dest / f"{len(paths) + 1:02d}.tar.zst")
            archive, unflushed = Archive(paths[-1]), 0
        archive.add(member, data)
        unflushed += len(data) + 1024
        # Until the next look at its size come two slices at most, and the end of the archive.
        if unflushed > SLICE:
            unflushed = 0
            if archive.size() + 3 * SLICE > limit:
                archive.close()
                archive = None
    if archive is not None:
        archive.close()
    return paths


def _slices(contents: Iterable[tuple[str, int, bytes | bytearray]]) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    for name, mode, data in contents:
        for at in range(0, max(len(data), 1), SLICE):
            part = bytes(data[at : at + SLICE])
            member = tarfile.TarInfo(name)
            member.mode, member.size = mode, len(part)
            if at:
                member.pax_headers = {AT: str(at)}
            yield member, part


def unpack(archive: Path, dest: Path) -> int:
    """Write the files and slices of an archive, and return how many."""
    number = 0
    with (
        archive.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file, read_size=1 << 20) as stream,
        tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as tar,
    ):
        for member in tar:
            path, data = dest / member.name, tar.extractfile(member)
            assert data is not None
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, member.mode)
            os.pwrite(descriptor, data.read(), int(member.pax_headers.get(AT, 0)))
            os.close(descriptor)
            number += 1
    return number


if __name__ == "__main__":
    for given in sys.argv[2:]:
        print(given, unpack(Path(given), Path(sys.argv[1])), "members", flush=True)
