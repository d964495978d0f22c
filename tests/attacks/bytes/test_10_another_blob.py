"""A valid library under another's name: an old one with a bug, a slower one, the kernel of another op.

The name is the digest of the content, and the digest is taken of the very bytes that are opened.
"""

from __future__ import annotations

from pathlib import Path

from tests.helpers.attacks import Refused


def test_swapped(path: Path, refused: Refused) -> None:
    blobs = sorted((path / "blobs").iterdir())
    contents = [b.read_bytes() for b in blobs]
    for blob, content in zip(blobs, contents[1:] + contents[:1], strict=True):
        blob.write_bytes(content)
    refused(path, "is damaged")


def test_changed_between_two_looks(path: Path, refused: Refused) -> None:
    """The index was read before; the blobs are exchanged after."""
    from precast import loader

    loader.caches(refresh=True)
    for blob in sorted((path / "blobs").iterdir()):
        blob.write_bytes(blob.read_bytes()[:-1] + b"\0")
    refused(path, "is damaged")
