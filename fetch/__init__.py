"""Fetching: a cache from a registry, a model hub or a folder. All of it is checked, then installed as a whole.

Programs import it as ``precast.loader.fetch``. It knows the format of a cache and how the loader reads one; the loader
knows nothing of it.
"""

from precast.fetch.fetcher import Fetched, fetch

__all__ = ["Fetched", "fetch"]
