"""The commands that verify, measure, compare and export what is in a cache: one file for each."""
