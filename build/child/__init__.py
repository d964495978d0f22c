"""Modules that run only in child processes. Nothing imports them: they are started by name."""
