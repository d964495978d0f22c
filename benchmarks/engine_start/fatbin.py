"""GPU code inside native libraries: the code for other GPUs is overwritten with zeros, which compress to nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

HEADER = struct.pack("<IHH", 0xBA55ED50, 1, 16)
"""How a container of GPU code begins: its magic number, version, and the size of its header."""
PTX, MACHINE_CODE = 1, 2


class Entry(NamedTuple):
    """One program in a container: where its code lies in the file, and which GPUs it is for."""

    begin: int
    end: int
    kind: int
    arch: int


def containers(data: bytes | bytearray) -> Iterator[list[Entry]]:
    """The entries of each container; those of one are the same code for several GPUs."""
    at = data.find(HEADER)
    while at >= 0:
        (size,) = struct.unpack_from("<Q", data, at + 8)
        place, end = at + 16, at + 16 + size
        entries = []
        while place < end <= len(data):
            kind, _, header, length = struct.unpack_from("<HHIQ", data, place)
            (arch,) = struct.unpack_from("<I", data, place + 28)
            entries.append(Entry(place + header, place + header + length, kind, arch))
            place += header + length
        # Other data may begin like a container by chance, such as a program that writes them: its entries do not fit.
        if entries and place == end:
            yield entries
            at = end - 1
        at = data.find(HEADER, at + 1)


def kept(entries: list[Entry], arch: int) -> list[Entry]:
    """The machine code for ``arch``, or else the newest PTX from which the driver can make it.

    >>> sass, old, new = Entry(0, 1, MACHINE_CODE, 90), Entry(1, 2, PTX, 80), Entry(2, 3, PTX, 90)
    >>> kept([sass, old, new], 90) == [sass], kept([old, new], 90) == [new], kept([old, new], 86) == [old]
    (True, True, True)
    """
    code = [entry for entry in entries if entry.kind == MACHINE_CODE and entry.arch == arch]
    ptx = sorted((e for e in entries if e.kind == PTX and e.arch <= arch), key=lambda e: (e.arch, e.begin))
    return code or ptx[-1:]


def blank(data: bytearray, arch: int, *, everything: bool = False) -> int:
    """Overwrite the code that ``arch`` does not need, or ``everything``, and return how many bytes that were."""
    number = 0
    for entries in containers(data):
        needed = [] if everything else kept(entries, arch)
        for entry in entries:
            if entry not in needed:
                data[entry.begin : entry.end] = bytes(entry.end - entry.begin)
                number += entry.end - entry.begin
    return number
