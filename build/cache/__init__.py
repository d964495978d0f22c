"""The cache: its files are packed, read, merged, compared and annotated."""
