"""Real caches, a little library on the path of a test, and the hooks of a test taken back."""

from tests.helpers.loader_fixtures import cache, installed, native, own_imports, path, use

__all__ = ["cache", "installed", "native", "own_imports", "path", "use"]
