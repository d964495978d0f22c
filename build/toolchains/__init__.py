"""Toolchains of manifests: what one asks for is resolved to a lock, and installed into an environment of its own."""
