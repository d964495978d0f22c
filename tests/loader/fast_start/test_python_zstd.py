"""Python's own decoder of zstd, in place of the package: what a cache may be damaged by, it refuses in the same way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from precast.loader.fast_start.python_zstd import PythonZstd

WITHOUT_PACKAGE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "zstandard":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from precast.loader.resolve.cache import Cache
cache = Cache(sys.argv[1])
content = cache.read(cache.op("scale").artifacts[0].blob)
print(cache.op("scale").artifacts[0].blob.encoding, len(content), "zstandard" in sys.modules)
"""


@pytest.fixture(scope="module")
def zstd() -> Any:
    return pytest.importorskip("compression.zstd", reason="Python has zstd since 3.14, if it was built with it")


@pytest.fixture(scope="module")
def own(zstd: Any) -> Any:
    return PythonZstd()


@pytest.mark.parametrize("trained", [True, False])
def test_a_frame_with_a_dictionary(zstd: Any, own: Any, trained: bool) -> None:
    content = b"words of a text " * 20
    samples = [b"words of text %d " % n * 20 for n in range(200)]
    words = zstd.train_dict(samples, 1 << 12).dict_content if trained else b"words of a dictionary " * 50
    stored = zstd.compress(content, zstd_dict=zstd.ZstdDict(words, is_raw=not trained))
    decoder = own.ZstdDecompressor(dict_data=own.ZstdCompressionDict(words))
    assert own.get_frame_parameters(stored).content_size == len(content)
    assert decoder.decompress(stored, max_output_size=len(content)) == content
    with pytest.raises(own.ZstdError):
        own.ZstdDecompressor().decompress(stored, max_output_size=len(content))


def test_one_decoder_decodes_many_frames(zstd: Any, own: Any) -> None:
    decoder = own.ZstdDecompressor()
    for size in (0, 1, 100, 1 << 20):
        stored = zstd.compress(bytes(size))
        assert own.get_frame_parameters(stored).content_size == size
        assert decoder.decompress(stored, max_output_size=size, allow_extra_data=False) == bytes(size)


def test_a_frame_that_grows_past_its_size(zstd: Any, own: Any) -> None:
    """The header agrees with the index, and what follows is longer: no more than one byte of it is decoded."""
    stored = bytearray(zstd.compress(bytes(200)))
    assert stored[5] == 200, "the one byte of the content size"
    stored[5] = 100
    assert own.get_frame_parameters(bytes(stored)).content_size == 100
    with pytest.raises(own.ZstdError):
        own.ZstdDecompressor().decompress(bytes(stored), max_output_size=100)


def test_a_bomb_without_a_size(zstd: Any, own: Any) -> None:
    packer = zstd.ZstdCompressor(options={zstd.CompressionParameter.content_size_flag: 0})
    stored = b"".join(packer.compress(bytes(1 << 24)) for _ in range(16)) + packer.flush()
    assert own.get_frame_parameters(stored).content_size == -1
    with pytest.raises(own.ZstdError, match="larger than its limit"):
        own.ZstdDecompressor().decompress(stored, max_output_size=100)


def test_every_truncation(zstd: Any, own: Any) -> None:
    content = bytes(range(256)) * 4
    stored = zstd.compress(content)
    for end in range(len(stored)):
        with pytest.raises(own.ZstdError):
            if own.get_frame_parameters(stored[:end]).content_size == len(content):
                own.ZstdDecompressor().decompress(stored[:end], max_output_size=len(content))
            else:
                raise own.ZstdError("a cache asks for the size first")


def test_more_after_the_frame(zstd: Any, own: Any) -> None:
    stored = zstd.compress(b"content")
    for more in (b"more", zstd.compress(b"more")):
        with pytest.raises(own.ZstdError, match="bytes follow the frame"):
            own.ZstdDecompressor().decompress(stored + more, max_output_size=7)


def test_a_cache_is_read_without_the_package(path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_PACKAGE, path], capture_output=True, text=True, check=False)
    if sys.version_info >= (3, 14):
        pytest.importorskip("compression.zstd", reason="this Python was built without zstd")
        encoding, size, imported = done.stdout.split()
        assert encoding.startswith("zstd") and int(size) > 0 and imported == "False", done.stderr
    else:
        assert done.returncode == 1
        assert "no decoder: pip install zstandard\n" in done.stderr
