"""The decoder of Python 3.14 and later, with the names of the package zstandard that a cache needs.

It is used where the package is not installed: there are no wheels of it for a free-threaded Python.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from precast.loader.contract.values import Immutable

_TRAINED = b"\x37\xa4\x30\xec"


class FrameParameters(Immutable):
    """The header of a frame; a size that it does not state is -1."""

    content_size: int


class PythonZstd:
    """``compression.zstd``, called as a cache calls ``zstandard``.

    >>> import sys
    >>> sys.version_info < (3, 14) or hasattr(PythonZstd(), "ZstdError")
    True
    """

    def __init__(self) -> None:
        self._module = importlib.import_module("compression.zstd")
        self.ZstdError: type[Exception] = self._module.ZstdError
        self.ZstdDecompressor = functools.partial(Decompressor, self._module)

    def ZstdCompressionDict(self, words: bytes) -> Any:
        """A dictionary: a trained one, or any bytes."""
        return self._module.ZstdDict(words, is_raw=not words.startswith(_TRAINED))

    def get_frame_parameters(self, stored: bytes) -> FrameParameters:
        """The size that a frame states, without decoding it."""
        size = self._module.get_frame_info(stored).decompressed_size
        return FrameParameters(-1 if size is None else size)


class Decompressor:
    """Decodes whole frames."""

    def __init__(self, module: Any, dict_data: Any = None) -> None:
        self._module, self._dictionary = module, dict_data

    def decompress(self, stored: bytes, *, max_output_size: int, allow_extra_data: bool = False) -> bytes:
        """The content of one frame, of at most ``max_output_size`` bytes; data after the frame is refused."""
        decoder = self._module.ZstdDecompressor(zstd_dict=self._dictionary)
        content: bytes = decoder.decompress(stored, max_output_size + 1)  # a frame that ends is then read to its end
        if not decoder.eof or len(content) > max_output_size:
            raise self._module.ZstdError("the frame is incomplete, or larger than its limit")
        if decoder.unused_data and not allow_extra_data:
            raise self._module.ZstdError(f"{len(decoder.unused_data)} bytes follow the frame")
        return content
