"""Processes that use the GPU: one queries the driver, one launches artifacts of a cache."""
