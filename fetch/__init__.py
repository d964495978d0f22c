"""Fetching: a cache from a registry, a model hub or a folder. All of it is checked, then installed as a whole.

Programs import it as ``precast.loader.fetch``. It knows the format of a cache and how the loader reads one; the loader
knows nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precast.fetch.fetcher import Fetched, fetch

__all__ = ["Fetched", "fetch"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from precast.fetch import fetcher  # a build uses other parts of fetch, without its code for networks

    return getattr(fetcher, name)
