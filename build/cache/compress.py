"""Compression: blobs share a dictionary that is trained on the build itself, which is worth more than any level."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import zstandard

from precast.build.cache.blob_reuse import BlobReuse
from precast.loader.format.artifact import Blob
from precast.loader.format.index import digest

LEVEL = 19
DICTIONARY_SIZE = 64 << 10
_K, _D = 1024, 8  # of the training: length of a segment, and of what is counted in it
_FEWEST = 12  # samples; a dictionary out of fewer costs more than it gives
_TRAINED_ON = 64 << 20  # bytes; more samples than that teach nothing new
# All that decides what comes out of a content and a dictionary, or out of samples.
METHOD = (
    f"zstd {'.'.join(map(str, zstandard.ZSTD_VERSION))} {LEVEL} {DICTIONARY_SIZE} {_K} {_D} {_FEWEST} {_TRAINED_ON}"
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A blob and the bytes that stand for it in a cache."""

    blob: Blob
    data: bytes


def train(contents: Mapping[str, bytes], earlier: BlobReuse | None = None) -> bytes | None:
    """A dictionary for these contents, or None where one does not pay. The same contents give the same dictionary.

    Training takes seconds: where an ``earlier`` cache of the same contents has its dictionary, that is taken.
    """
    if earlier and (known := earlier.dictionary(METHOD, contents)) is not None:
        return known
    dictionary = _train(contents)
    if earlier and dictionary:
        earlier.keep_dictionary(METHOD, contents, dictionary)
    return dictionary


def _train(contents: Mapping[str, bytes]) -> bytes | None:
    samples: list[bytes | bytearray | memoryview] = [contents[name] for name in sorted(contents)]
    step = max(1, sum(map(len, samples)) // _TRAINED_ON + 1)
    samples = samples[::step]
    if len(samples) < _FEWEST:
        return None
    try:
        return zstandard.train_dictionary(DICTIONARY_SIZE, samples, k=_K, d=_D, level=LEVEL).as_bytes()
    except zstandard.ZstdError:
        return None  # the samples have nothing in common


def store_all(
    contents: Mapping[str, bytes], dictionary: bytes | None, threads: int, earlier: BlobReuse | None = None
) -> dict[str, Stored]:
    """Compress every content, named by its digest, in as many threads; what an ``earlier`` cache has is taken."""
    shared = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
    if shared is not None:
        shared.precompute_compress(level=LEVEL)
    done = earlier.compressed(METHOD, dictionary, contents) if earlier else {}

    def one(data: bytes) -> bytes:
        # A compressor serves one thread at a time. The frame needs no checksum: every blob is checked by its digest.
        return zstandard.ZstdCompressor(level=LEVEL, dict_data=shared, write_checksum=False).compress(data)

    left = sorted(contents.keys() - done.keys())
    with ThreadPoolExecutor(max(1, threads)) as pool:
        done.update(zip(left, pool.map(one, (contents[name] for name in left)), strict=True))
    if earlier and left:
        earlier.keep_compressed(METHOD, dictionary, done)
    encoding = "zstd" if dictionary is None else "zstd+dictionary"
    return {
        name: Stored(Blob(sha256=name, size=len(contents[name]), stored=len(data), encoding=encoding), data)
        for name, data in sorted(done.items())
    }


def store_raw(data: bytes) -> Stored:
    """Content kept as it is."""
    return Stored(Blob(sha256=digest(data), size=len(data), stored=len(data), encoding="raw"), data)
