"""YAML that may be wrong: read with the place of every value, and typed getters for it."""
