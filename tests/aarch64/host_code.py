"""Host code in the wheel of a cache: ELF files for a processor, at any position of a file or of a decoded blob."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from precast.loader.contract.format.artifact import Blob
from precast.loader.resolve.cache import Cache

_ELF, _CUDA = b"\x7fELF", 190  # how an ELF file begins, and EM_CUDA
_MACHINE = 18  # the position of the machine in an ELF header; of two bytes


def machines(data: bytes) -> list[int]:
    """The machines of the ELF files in some bytes.

    >>> machines(b"..." + _ELF + bytes(14) + bytes([183, 0]))
    [183]
    """
    found: list[int] = []
    position = data.find(_ELF)
    while position >= 0:
        machine = data[position + _MACHINE : position + _MACHINE + 2]
        if len(machine) == 2:
            found.append(int.from_bytes(machine, "little"))
        position = data.find(_ELF, position + 1)
    return found


def host_code(wheel: Path, scratch: Path) -> tuple[list[str], int]:
    """The files and decoded blobs of a cache's wheel that contain host code, and the number of ELF files for GPUs."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(scratch)
    contents = {str(file.relative_to(scratch)): file.read_bytes() for file in scratch.rglob("*") if file.is_file()}
    (index,) = scratch.rglob("index.json")
    cache = Cache(index.parent)
    blobs = {blob.sha256: cache.read(blob) for blob in _blobs(cache)}
    files = {file.name for file in (index.parent / "blobs").iterdir()}
    assert set(blobs) == files, f"blobs that the cache does not list, or lacks: {sorted(set(blobs) ^ files)}"
    contents |= {f"decoded {name}": data for name, data in blobs.items()}
    found = {name: machines(data) for name, data in contents.items()}
    hosts = sorted(name for name, each in found.items() if set(each) - {_CUDA})
    return hosts, sum(each.count(_CUDA) for name, each in found.items() if name.startswith("decoded "))


def _blobs(cache: Cache) -> Iterator[Blob]:
    for op in cache.index.ops:
        yield from (artifact.blob for artifact in cache.op(op).artifacts)
    yield from (runtime.blob for runtime in cache.index.runtimes)
    if cache.index.dictionary is not None:
        yield cache.index.dictionary
