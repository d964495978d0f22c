"""Pushing a cache: to a registry as an image, to a hub or a folder as files. ``precast.fetch`` reads both."""
