"""What publishes a cache: pushes to registries, hubs and folders; signatures and bills of materials; bundles."""
