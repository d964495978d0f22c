"""The interface to write kernels with: declarations, type hints, the registry, verify and bench."""
