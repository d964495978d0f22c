"""The project file ``precast.toml``: what commands use when they are given neither manifests nor a cache."""
