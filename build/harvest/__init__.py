"""Harvests: the keys of kernels that libraries have compiled into their own caches on disk."""
