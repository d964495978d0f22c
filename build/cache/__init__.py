"""The cache: its files, how they are packed and read, and what merges, compares and annotates them."""
