"""Real caches for the loader's tests."""

from tests.helpers.loader_fixtures import cache, kernels, native, path, use

__all__ = ["cache", "kernels", "native", "path", "use"]
