"""A cache on its way: references to it, its layers, and its OCI image."""
