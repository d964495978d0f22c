"""Launches in child processes, seen from the parent: timing and verification of artifacts."""
