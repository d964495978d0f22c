"""Measurements in files beside manifests: the file format, joining files, and fitting them to a cache."""
