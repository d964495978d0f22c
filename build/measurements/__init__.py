"""What was measured, kept beside manifests: the file, how files are joined, and what of them fits a cache."""
