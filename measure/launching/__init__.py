"""Launching what a cache holds: which artifacts this GPU runs, and how each is called."""
