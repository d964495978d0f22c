"""What builder and loader agree on: the index, its values, and how they are read from bytes that may be wrong."""
