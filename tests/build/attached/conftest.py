"""Real caches, and a little library on the path of a test."""

from tests.helpers.loader_fixtures import installed, native

__all__ = ["installed", "native"]
