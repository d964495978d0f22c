"""Fetching: a cache from a registry, a model hub or a folder, put into place as a whole once all of it was checked.

``python -m precast.loader.fetch REFERENCE -o CACHE`` is the command, ``precast.loader.fetch.fetcher.fetch`` the
function. Neither needs a compiler, the builder, or a package that the loader does not need. The loader does not import
this room by itself.
"""
