"""Fetching: a cache from a registry, a model hub or a folder. All of it is checked, then installed as a whole.

``python -m precast.loader.fetch REFERENCE -o CACHE`` is the command, ``precast.loader.fetch.fetch`` the function.
Neither needs a compiler, the builder, or a package that the loader does not need. ``import precast.loader`` does not
import this package.
"""

from precast.loader.fetch.fetcher import Fetched, fetch

__all__ = ["Fetched", "fetch"]
