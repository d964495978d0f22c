"""What readers of an index refuse is not written."""

from __future__ import annotations

import pytest

from precast.build.cache.index_writer import cache_files
from precast.build.errors import OutputError
from precast.loader.contract.format.artifact import BLOB_LIMIT, Blob
from precast.loader.contract.format.index import OpIndex
from precast.loader.contract.values import replace
from precast.loader.resolve.choose import MOST_OF_ONE_CONFIG
from tests.helpers.caches import SCALE_KEYS
from tests.helpers.resolutions import scale

MANY = [scale(threads=n) for n in range(MOST_OF_ONE_CONFIG + 1)]


def test_a_builder_does_not_write_what_readers_refuse() -> None:
    large = Blob(sha256="b" * 64, size=BLOB_LIMIT + 1, stored=1, encoding="zstd")
    for artifacts, words in ((MANY, "4097 artifacts of one config"), ([replace(MANY[0], blob=large)], "in one blob")):
        index = OpIndex.of(op="scale", keys=SCALE_KEYS, doc="", artifacts=tuple(artifacts))
        with pytest.raises(OutputError, match=words):
            cache_files(name="a", toolchain={}, runtimes=(), ops={"scale": index}, dictionary=None, blobs={})
