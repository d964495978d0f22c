"""Processes that use the GPU: one asks the driver, one launches what a cache holds, one replays a call."""
