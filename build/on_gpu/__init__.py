"""Launches in child processes, seen from the parent: timing, verification and replay of artifacts."""
