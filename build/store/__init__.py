"""The store: compiled variants by their keys, kept for later builds, and shared between machines."""
