"""Compression: blobs share a dictionary that is trained on the build itself, which is worth more than any level."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import zstandard

from precast.loader.artifact import Blob
from precast.loader.index import digest

LEVEL = 19
DICTIONARY_SIZE = 64 << 10
_FEWEST = 12  # samples; a dictionary out of fewer costs more than it gives
_TRAINED_ON = 64 << 20  # bytes; more samples than that teach nothing new


@dataclass(frozen=True, slots=True)
class Stored:
    """A blob and the bytes that stand for it in a cache."""

    blob: Blob
    data: bytes


def train(contents: Mapping[str, bytes]) -> bytes | None:
    """A dictionary for these contents, or None where one does not pay. The same contents give the same dictionary."""
    samples: list[bytes | bytearray | memoryview] = [contents[name] for name in sorted(contents)]
    step = max(1, sum(map(len, samples)) // _TRAINED_ON + 1)
    samples = samples[::step]
    if len(samples) < _FEWEST:
        return None
    try:
        return zstandard.train_dictionary(DICTIONARY_SIZE, samples, k=1024, d=8, level=LEVEL).as_bytes()
    except zstandard.ZstdError:
        return None  # the samples have nothing in common


def store_all(contents: Mapping[str, bytes], dictionary: bytes | None, threads: int) -> dict[str, Stored]:
    """Compress every content, named by its digest, in as many threads."""
    shared = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
    if shared is not None:
        shared.precompute_compress(level=LEVEL)

    def one(item: tuple[str, bytes]) -> Stored:
        name, data = item
        # A compressor serves one thread at a time. The frame needs no checksum: every blob is checked by its digest.
        compressor = zstandard.ZstdCompressor(level=LEVEL, dict_data=shared, write_checksum=False)
        encoding = "zstd" if shared is None else "zstd+dictionary"
        stored = compressor.compress(data)
        return Stored(Blob(sha256=name, size=len(data), stored=len(stored), encoding=encoding), stored)

    with ThreadPoolExecutor(max(1, threads)) as pool:
        return {s.blob.sha256: s for s in pool.map(one, sorted(contents.items()))}


def store_raw(data: bytes) -> Stored:
    """Content kept as it is."""
    return Stored(Blob(sha256=digest(data), size=len(data), stored=len(data), encoding="raw"), data)


def store_plain(data: bytes) -> Stored:
    """Content compressed without the shared dictionary."""
    stored = zstandard.ZstdCompressor(level=LEVEL, write_checksum=False).compress(data)
    return Stored(Blob(sha256=digest(data), size=len(data), stored=len(stored), encoding="zstd"), stored)
