"""Real caches for the loader's tests."""

from tests.helpers.loader_fixtures import cache, installed, kernels, native, own_imports, path, plain_finders, use

__all__ = ["cache", "installed", "kernels", "native", "own_imports", "path", "plain_finders", "use"]
