"""The door to ``precast.fetch``, which the loader's wheel holds: a cache from a registry, a model hub or a folder.

``python -m precast.loader.fetch REFERENCE -o CACHE`` is the command, ``precast.loader.fetch.fetch`` the function.
Neither needs a compiler, the builder, or a package that the loader does not need. ``import precast.loader`` does not
import this module.
"""

from precast.fetch import Fetched, fetch

__all__ = ["Fetched", "fetch"]

if __name__ == "__main__":
    import sys

    from precast.fetch.__main__ import main

    sys.exit(main())
