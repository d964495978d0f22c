"""A cache as layers: tar files of limited size, and the table of their contents.

One layer for each blob would need a thousand requests; one layer for all would be sent again when any blob changes. So
the first layer has the index and the ops, and the blobs are distributed over layers of about ``LAYER_SIZE``, by the
first bits of their digests: a new blob changes one layer only.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Mapping

from precast.fetch.distribution.layers import Layer, Member
from precast.loader.contract.format.index import digest

LAYER_SIZE = 8 << 20
MOST_LAYERS = 64  # container runtimes refuse images of more than 127


def layers_of(files: Mapping[str, bytes]) -> list[tuple[Layer, bytes]]:
    """The layers of the files of a cache, each with its bytes. The same files give the same bytes.

    >>> [(layer, data)] = layers_of({"index.json": b"{}"})
    >>> layer.files[0], data[layer.files[0].offset :][:2], len(data) == layer.size
    (Member(name='index.json', offset=512, size=2), b'{}', True)
    """
    blobs = [name for name in files if name.startswith("blobs/")]
    bits = _bits(sum(len(files[name]) for name in blobs))
    groups: dict[int, list[str]] = {-1: [name for name in files if name not in set(blobs)]}
    for name in blobs:
        first = int(name.removeprefix("blobs/")[:8], 16)
        groups.setdefault(first >> (32 - bits), []).append(name)
    return [layer_of(groups[group], files) for group in sorted(groups)]


def _bits(size: int) -> int:
    """The number of layers, as a power of two, that keeps each below ``LAYER_SIZE``.

    >>> _bits(0), _bits(LAYER_SIZE), _bits(LAYER_SIZE + 1), _bits(1 << 50)
    (0, 0, 1, 6)
    """
    bits = 0
    while size > LAYER_SIZE << bits and 1 << bits < MOST_LAYERS:
        bits += 1
    return bits


def layer_of(names: Iterable[str], files: Mapping[str, bytes]) -> tuple[Layer, bytes]:
    """One layer with these files."""
    buffer = io.BytesIO()
    members: list[Member] = []
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        listed = sorted(names)
        for folder in sorted({name.rpartition("/")[0] for name in listed} - {""}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        for name in listed:
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(files[name]), 0o644
            members.append(Member(name, buffer.tell() + tarfile.BLOCKSIZE, entry.size))  # names are short: one header
            tar.addfile(entry, io.BytesIO(files[name]))
    data = buffer.getvalue()
    return Layer(sha256=digest(data), size=len(data), files=tuple(members)), data
