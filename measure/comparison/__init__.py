"""Comparing caches: two with each other, and one with a second build of it."""
