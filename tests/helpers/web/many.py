"""Caches of many small blobs, whose contents are nothing but bytes: for what moves caches and does not open them."""

from __future__ import annotations

import random
from pathlib import Path

from precast.fetch.transport.patience import Patience
from precast.loader.contract.format.config import Key
from tests.helpers.caches import CacheWriter, artifact

QUICK = Patience(tries=4, first=0.01, longest=0.05, timeout=5.0)
"""Waits that a test can afford."""

DICTIONARY = b"".join(f"dictionary word {n} ".encode() for n in range(400))


def many(path: Path, *, blobs: int = 40, name: str = "many", new: int = 0, largest: int = 3000) -> Path:
    """A cache of two ops and so many blobs, compressed with a dictionary, of which the last ``new`` are its own."""
    writer = CacheWriter(name=name)
    writer.use_dictionary(DICTIONARY)
    chances = random.Random(7)
    rows = []
    for number in range(blobs):
        data = chances.randbytes(chances.randrange(50, largest)) + DICTIONARY[: chances.randrange(100, 900)]
        if number >= blobs - new:
            data = f"new in {name}".encode() + data
        blob = writer.keep(data, ("zstd+dictionary", "zstd", "raw")[number % 3])
        rows.append(artifact(blob, {"n": number}))
    keys = (Key(name="n", type="int"),)
    writer.op("first", rows[: blobs // 2], keys)
    writer.op("second.part", rows[blobs // 2 :], keys)
    return writer.write(path)
