"""Compression: blobs share a dictionary that is trained on the build's own content, which saves more than any level."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import zstandard

from precast.build.cache.blob_reuse import BlobReuse
from precast.loader.contract.format.artifact import Blob
from precast.loader.contract.format.index import digest
from precast.loader.errors import ConfigError
from precast.loader.resolve.cache import Cache

LEVEL = 19
DICTIONARY_SIZE = 64 << 10
_K, _D = 1024, 8  # of the training: length of a segment, and of what is counted in it
_FEWEST = 12  # samples; a dictionary trained on fewer is larger than what it saves
_TRAINED_ON = 64 << 20  # bytes of samples; with more, the dictionary gets no better
# Everything that affects the compressed bytes of a content, and the dictionary of some samples.
METHOD = (
    f"zstd {'.'.join(map(str, zstandard.ZSTD_VERSION))} {LEVEL} {DICTIONARY_SIZE} {_K} {_D} {_FEWEST} {_TRAINED_ON}"
)


@dataclass(frozen=True, slots=True)
class Stored:
    """A blob and its bytes as a cache holds them."""

    blob: Blob
    data: bytes


def train(contents: Mapping[str, bytes], reuse: BlobReuse | None = None) -> bytes | None:
    """A dictionary for these contents, or None if it saves nothing. The same contents give the same dictionary.

    Training takes seconds: if ``reuse`` has the dictionary of the same contents, it is used.
    """
    if reuse and (earlier := reuse.dictionary(METHOD, contents)) is not None:
        return earlier
    dictionary = _train(contents)
    if reuse and dictionary:
        reuse.keep_dictionary(METHOD, contents, dictionary)
    return dictionary


def dictionary_of(path: Path) -> bytes:
    """The dictionary of the cache at a path. With it, contents of this cache are compressed to the same bytes again."""
    cache = Cache(path)
    if cache.index.dictionary is None:
        raise ConfigError(f"{path} has no dictionary, because it is too small: remove --dictionary")
    return cache.read(cache.index.dictionary)


def _train(contents: Mapping[str, bytes]) -> bytes | None:
    samples: list[bytes | bytearray | memoryview] = [contents[name] for name in sorted(contents)]
    step = max(1, sum(map(len, samples)) // _TRAINED_ON + 1)
    samples = samples[::step]
    if len(samples) < _FEWEST:
        return None
    try:
        return zstandard.train_dictionary(DICTIONARY_SIZE, samples, k=_K, d=_D, level=LEVEL).as_bytes()
    except zstandard.ZstdError:
        return None  # the samples have too little in common


def store_all(
    contents: Mapping[str, bytes],
    dictionary: bytes | None,
    threads: int,
    reuse: BlobReuse | None = None,
    level: int = LEVEL,
) -> dict[str, Stored]:
    """Compress every content, given by its digest, in so many threads, except those that ``reuse`` has."""
    shared = None if dictionary is None else zstandard.ZstdCompressionDict(dictionary)
    if shared is not None:
        shared.precompute_compress(level=LEVEL)
    done = reuse.compressed(METHOD, dictionary, contents) if reuse else {}

    def compressed(data: bytes) -> bytes:
        # A compressor serves one thread at a time. The frame needs no checksum: every blob is checked by its digest.
        return zstandard.ZstdCompressor(level=level, dict_data=shared, write_checksum=False).compress(data)

    remaining = sorted(contents.keys() - done.keys())
    with ThreadPoolExecutor(max(1, threads)) as pool:
        done.update(zip(remaining, pool.map(compressed, (contents[name] for name in remaining)), strict=True))
    if reuse and remaining:
        reuse.keep_compressed(METHOD, dictionary, done)
    encoding = "zstd" if dictionary is None else "zstd+dictionary"
    return {
        name: Stored(Blob(sha256=name, size=len(contents[name]), stored=len(data), encoding=encoding), data)
        for name, data in sorted(done.items())
    }


def store_raw(data: bytes) -> Stored:
    """Content that is not compressed."""
    return Stored(Blob(sha256=digest(data), size=len(data), stored=len(data), encoding="raw"), data)
