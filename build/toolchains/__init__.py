"""Toolchains of manifests: each is resolved to a lock, and installed into a separate environment."""
