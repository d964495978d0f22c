"""Real caches for the loader's tests."""

from tests.helpers.loader_fixtures import cache, kernels, native, path, plain_finders, use

__all__ = ["cache", "kernels", "native", "path", "plain_finders", "use"]
