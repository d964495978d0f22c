"""The store: compiled variants by their keys, kept for every later build, and shared between machines."""
